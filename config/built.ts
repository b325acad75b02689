/**
 * The built JavaScript file of a module, for `new Worker(...)`, since a worker cannot load TypeScript. For a built module it is the file
 * beside it; for a source module (in tests) the same file under `dist/`.
 */
export function builtModule(importMetaUrl: string, relative: string): URL {
  const neighbour = new URL(relative.replace(/\.ts$/, '.js'), importMetaUrl);
  if (importMetaUrl.endsWith('.js')) return neighbour;
  const root = new URL('..', import.meta.url); // this file is <root>/config/built.ts
  return new URL(`dist/${neighbour.href.slice(root.href.length)}`, root);
}
