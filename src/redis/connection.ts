import { isIP, type Socket } from 'node:net';
import type { Redis } from 'ioredis';

/** Hears when Redis is lost, and when it answers again. */
export interface RedisLog {
  info(text: string): void;
  warn(fields: object, text: string): void;
}

/** While it does not answer it is asked once in this time, so that requests do not wait for it one by one. */
const retryEveryMs = 1_000;
const answerLimitMs = 250;

/**
 * The connection to Redis, which several nodes share. Nothing depends on its answers: everyone who asks has a way to go on alone, until the
 * nodes know of each other again.
 */
export class RedisConnection {
  /** False from the first question that it did not answer until it answers again. */
  answers = true;
  private askAgainAtMs = 0;
  private readonly restored: (() => void)[] = [];

  private constructor(
    private readonly redis: Redis,
    private readonly log: RedisLog | null,
    private readonly onAnswered: (ms: number) => void,
  ) {}

  /**
   * Throws one clear sentence when the package is not installed or the server does not answer. `onAnswered`: called after each answer, with the
   * time that it took.
   */
  static async connect(
    url: string,
    log: RedisLog | null = null,
    onAnswered: (ms: number) => void = () => {},
  ): Promise<RedisConnection> {
    let Client: typeof Redis;
    try {
      ({ Redis: Client } = await import('ioredis'));
    } catch (error) {
      throw new Error('TRUNKLINE_REDIS_URL is set, but the package ioredis is not installed', { cause: error });
    }
    const redis = new Client(url, {
      lazyConnect: true,
      enableOfflineQueue: false,
      commandTimeout: answerLimitMs,
      connectTimeout: 5_000,
      maxRetriesPerRequest: 0,
      retryStrategy: (times) => Math.min(1_000 * times, 10_000),
    });
    redis.on('error', () => {}); // `close` follows
    try {
      await redis.connect();
    } catch (error) {
      redis.disconnect();
      throw new Error(`Cannot reach Redis: ${(error as Error).message}`, { cause: error });
    }
    const connection = new RedisConnection(redis, log, onAnswered);
    redis.on('close', () => connection.lost('the connection is closed'));
    redis.on('ready', () => connection.found());
    return connection;
  }

  /** Our address on the way to Redis; null while there is no connection. */
  get localAddress(): string | null {
    const { localAddress = '' } = this.redis.stream as Socket;
    return isIP(localAddress) ? localAddress : null;
  }

  /** Makes a script callable. It runs on the server in one step. */
  define(name: string, script: { keys: number; lua: string }): void {
    this.redis.defineCommand(name, { numberOfKeys: script.keys, lua: script.lua });
  }

  /** Rejects when Redis does not answer within a quarter of a second, and at once while it is known not to. */
  async ask<T>(question: (redis: Redis) => Promise<T>): Promise<T> {
    if (!this.answers && performance.now() < this.askAgainAtMs) throw new Error('Redis does not answer');
    const askedMs = performance.now();
    this.askAgainAtMs = askedMs + retryEveryMs;
    try {
      const answer = await question(this.redis);
      this.onAnswered(performance.now() - askedMs);
      this.found();
      return answer;
    } catch (error) {
      this.lost((error as Error).message);
      throw error;
    }
  }

  /** `listener` is called each time that Redis answers again. */
  onRestored(listener: () => void): void {
    this.restored.push(listener);
  }

  close(): void {
    this.redis.removeAllListeners('close');
    this.redis.disconnect();
  }

  private lost(reason: string): void {
    if (!this.answers) return;
    this.answers = false;
    this.log?.warn({ reason }, 'Redis does not answer: this node counts limits alone and knows its own phones only');
  }

  private found(): void {
    if (this.answers) return;
    this.answers = true;
    this.log?.info('Redis answers again: limits and phones are shared');
    for (const listener of this.restored) listener();
  }
}
