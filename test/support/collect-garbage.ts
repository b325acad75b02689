import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Of this thread; else memory says how lazy the collector was. */
export function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}
