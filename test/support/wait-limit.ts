/** `vi.waitFor` gives up after 1 s unless told otherwise: too soon on a machine that does other things too. */
import { vi } from 'vitest';

const { waitFor } = vi;
vi.waitFor = (condition, options = 10_000) => waitFor(condition, options);
