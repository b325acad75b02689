/** Every provider that can be simulated. */
import { deepgram } from './deepgram.js';
import type { Dialect } from './dialect.js';
import { elevenlabs } from './elevenlabs.js';
import { openai } from './openai.js';

const all: readonly Dialect[] = [openai, elevenlabs, deepgram];

export const dialects: ReadonlyMap<string, Dialect> = new Map(all.map((each) => [each.provider, each]));
