/**
 * The built JavaScript file of a module, for `new Worker(...)`: a worker cannot load TypeScript. Beside a built module it is its
 * neighbour; from a source module (tests) it is the same file under `dist/`.
 */
export function builtModule(importMetaUrl: string, relative: string): URL {
  const neighbour = new URL(relative.replace(/\.ts$/, '.js'), importMetaUrl);
  if (importMetaUrl.endsWith('.js')) return neighbour;
  const root = new URL('..', import.meta.url); // this file is <root>/config/built.ts
  return new URL(`dist/${neighbour.href.slice(root.href.length)}`, root);
}
