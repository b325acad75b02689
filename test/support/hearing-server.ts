/** A transcription server with OpenAI's interface that hears tones: its text is their frequency. */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { readWav } from '../../media/audio/wav.js';

export interface HeardUtterance {
  hz: number;
  /** Of the tone, without the silence around it. */
  ms: number;
  sampleRateHz: number;
  fields: string;
}

export interface HearingServer {
  url: string;
  heard: HeardUtterance[];
  /** Answers instead of the text; false: the text is answered. */
  instead: (heard: HeardUtterance, response: ServerResponse) => boolean;
  close(): Promise<void>;
}

export async function startHearingServer(): Promise<HearingServer> {
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body = Buffer.concat(parts);
    const file = body.indexOf('RIFF');
    const { sampleRateHz, channels } = readWav(body.subarray(file));
    const fields = body.subarray(0, file).toString('latin1');
    const utterance = { ...toneOf(channels[0] as Int16Array, sampleRateHz), sampleRateHz, fields };
    hearing.heard.push(utterance);
    if (hearing.instead(utterance, response)) return;
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ text: `${Math.round(utterance.hz / 10) * 10} hertz` }));
  });
  const hearing: HearingServer = {
    url: '',
    heard: [],
    instead: () => false,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  hearing.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return hearing;
}

/** The frequency by the median time between crossings of zero, whatever holes a machine that stands still leaves. */
function toneOf(samples: Int16Array, sampleRateHz: number): { hz: number; ms: number } {
  const loud = (sample: number) => Math.abs(sample) > 500;
  const from = samples.findIndex(loud);
  const to = samples.findLastIndex(loud);
  const crossings: number[] = [];
  for (let i = Math.max(1, from); i <= to; i++) {
    const [before, after] = [samples[i - 1] as number, samples[i] as number];
    if (before < 0 && after >= 0) crossings.push(i - after / (after - before));
  }
  const periods = crossings.slice(1).map((at, i) => at - (crossings[i] as number));
  const median = periods.sort((a, b) => a - b)[periods.length >> 1] ?? Number.POSITIVE_INFINITY;
  return { hz: sampleRateHz / median, ms: ((to - from) / sampleRateHz) * 1000 };
}
