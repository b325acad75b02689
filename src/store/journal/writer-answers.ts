/** The side of the thread that writes: takes its requests and answers them. */
import { parentPort, workerData } from 'node:worker_threads';
import { StoreError } from '../database/errors.js';
import type { WriterAnswer, WriterData, WriterRequest } from './writer-protocol.js';

const { dies } = workerData as WriterData;

/** Ends this thread if a test asks for it. */
export function dieIfAsked(): void {
  if (Atomics.load(dies, 0) === 1) process.exit(1);
}

/** Calls `take` for every request. */
export function onRequest(take: (request: WriterRequest) => void): void {
  parentPort?.on('message', (request: WriterRequest) => {
    dieIfAsked();
    if (request.kind !== 'wake') take(request);
  });
}

/** Carries requests out one after the other, and answers them. */
export function answerRequests(carryOut: (request: WriterRequest) => Promise<unknown>): void {
  let last: Promise<void> = Promise.resolve();
  onRequest((request) => {
    last = last.then(async () => {
      try {
        answer({ id: request.id, value: await carryOut(request) });
      } catch (error) {
        answer(problemOf(request.id, error));
      }
    });
  });
}

export function answer(told: WriterAnswer): void {
  dieIfAsked();
  parentPort?.postMessage(told);
}

export function problemOf(id: number, error: unknown, code: string | null = null): WriterAnswer {
  const isPassing = error instanceof StoreError && error.code === 'unavailable';
  return { id, problem: { message: (error as Error).message, code, isPassing } };
}
