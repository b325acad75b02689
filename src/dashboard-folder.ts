import { fileURLToPath } from 'node:url';
import { builtModule } from '../config/built.js';

/** The folder of the built dashboard, beside the built server. */
export function builtDashboard(): string {
  return fileURLToPath(new URL('.', builtModule(import.meta.url, '../dashboard/index.html')));
}
