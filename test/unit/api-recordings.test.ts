import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { byteRange } from '../../src/api/request/byte-range.js';
import { type TestApi, testApi } from '../support/api.js';

const bytes = Buffer.from(Array.from({ length: 1000 }, (_, i) => i % 251));
let dir: string;
let folder: string;
let api: TestApi;

beforeEach(async () => {
  dir = mkdtempSync(path.join(tmpdir(), 'trunkline-recordings-'));
  folder = path.join(dir, 'recordings');
  mkdirSync(path.join(folder, '2026-01-15'), { recursive: true });
  api = await testApi({ recordingsFolder: folder, publicUrl: 'https://calls.example.com' });
});
afterEach(async () => {
  await api.close();
  rmSync(dir, { recursive: true });
});

/** An ended call whose record names this file. */
async function recordedCall(file: string, organizationId = api.a.organizationId): Promise<string> {
  const id = api.store.calls.begin({
    organizationId,
    mode: 'live',
    direction: 'inbound',
    fromNumber: 'x',
    toNumber: 'y',
    phoneNumberId: '0198aaaa-0000-7000-8000-000000000001',
    endpointId: null,
  });
  api.store.calls.finish(id, {
    status: 'completed',
    hangupCause: 'normal_clearing',
    hangupSource: 'caller',
    durationSec: 1,
  });
  api.store.calls.recorded(id, file.startsWith('file:') ? file : pathToFileURL(file).href);
  await api.store.calls.flush();
  return id;
}

async function recording(): Promise<{ id: string; file: string }> {
  const file = path.join(folder, '2026-01-15', `${Math.random().toString(36).slice(2)}.wav`);
  writeFileSync(file, bytes);
  return { id: await recordedCall(file), file };
}

const raw = (url: string, headers: Record<string, string> = {}, method: 'GET' | 'HEAD' = 'GET') =>
  api.app.inject({ method, url, headers });
const withKey = (headers: Record<string, string> = {}) => ({ 'x-api-key': api.a.key, ...headers });

describe('GET /v1/calls/{id}/recording', () => {
  it('answers the file, whole or in part', async () => {
    const { id } = await recording();
    const url = `/v1/calls/${id}/recording`;
    const whole = await raw(url, withKey());
    expect([whole.statusCode, whole.headers['content-type'], whole.headers['content-length']]).toEqual([
      200,
      'audio/wav',
      '1000',
    ]);
    expect(whole.headers['accept-ranges']).toBe('bytes');
    expect(whole.rawPayload.equals(bytes)).toBe(true);
    const part = await raw(url, withKey({ range: 'bytes=100-199' }));
    expect([part.statusCode, part.headers['content-range'], part.headers['content-length']]).toEqual([
      206,
      'bytes 100-199/1000',
      '100',
    ]);
    expect(part.rawPayload.equals(bytes.subarray(100, 200))).toBe(true);
    const etag = String(whole.headers.etag);
    expect((await raw(url, withKey({ range: 'bytes=0-0', 'if-range': etag }))).statusCode).toBe(206);
    expect((await raw(url, withKey({ range: 'bytes=0-0', 'if-range': '"other"' }))).statusCode).toBe(200);
    const beyond = await api.request('GET', url, { headers: { range: 'bytes=1000-' } });
    expect([beyond.status, beyond.body.code, beyond.headers['content-range']]).toEqual([
      416,
      'RANGE_NOT_SATISFIABLE',
      'bytes */1000',
    ]);
    const head = await raw(url, withKey(), 'HEAD');
    expect([head.statusCode, head.headers['content-length'], head.rawPayload.length]).toEqual([200, '1000', 0]);
  });

  it('is opened by recording_url without a key, until that expires, also after a restart', async () => {
    const { id } = await recording();
    api.clock.set(Date.UTC(2026, 0, 15, 12, 20));
    const read = async () => (await api.request('GET', `/v1/calls/${id}`)).body.recording_url as string;
    const url = new URL(await read());
    expect(url.origin).toBe('https://calls.example.com');
    expect(url.pathname).toBe(`/v1/calls/${id}/recording`);
    expect(Number(url.searchParams.get('expires')) * 1000).toBe(Date.UTC(2026, 0, 15, 14));
    api.clock.set(Date.UTC(2026, 0, 15, 12, 59));
    expect(await read()).toBe(url.href); // the same within an hour: it can be cached
    const link = url.pathname + url.search;
    expect((await raw(link)).rawPayload.equals(bytes)).toBe(true);
    expect((await raw(link, { range: 'bytes=-10' })).rawPayload.equals(bytes.subarray(990))).toBe(true);
    expect((await api.request('GET', '/v1/calls')).body.data[0].recording_url).toBe(url.href);

    const refused: string[] = [
      `${link}x`,
      link.replace(/signature=./, 'signature=!'),
      link.replace(/expires=\d+/, `expires=${Date.UTC(2030, 0, 1) / 1000}`),
      link.replace(id, (await recording()).id),
      link.replace(/signature=.*/, 'signature='),
      link.replace(/expires=\d+&/, ''),
    ];
    for (const wrong of refused) {
      const answer = await api.request('GET', wrong, { key: null });
      expect([answer.status, answer.body.code], wrong).toEqual([401, 'UNAUTHORIZED']);
    }
    // The signature is for the recording and for nothing else.
    const detail = await api.request('GET', `/v1/calls/${id}?signature=${url.searchParams.get('signature')}`, {
      key: null,
    });
    expect(detail.status).toBe(401);
    // A wrong key is not saved by a good link.
    expect((await raw(link, { 'x-api-key': 'wrong' })).statusCode).toBe(401);

    const again = await testApi({ store: api.store, recordingsFolder: folder, now: () => api.clock.now() });
    expect((await again.app.inject(link)).statusCode).toBe(200);
    await again.close();
    api.clock.set(Date.UTC(2026, 0, 15, 14));
    expect((await raw(link)).statusCode).toBe(401);
  });

  it('is 404 for a call without one, a file that is gone, and calls of others', async () => {
    const { id, file } = await recording();
    const foreign = await recordedCall(file, api.b.organizationId);
    rmSync(file);
    for (const each of [id, foreign]) {
      const answer = await api.request('GET', `/v1/calls/${each}/recording`);
      expect([answer.status, answer.body], each).toEqual([404, { error: 'Recording not found', code: 'NOT_FOUND' }]);
    }
  });

  it('never leaves the folder, whatever the record says', async () => {
    const outside = path.join(dir, 'secret.wav');
    writeFileSync(outside, 'secret');
    mkdirSync(path.join(dir, 'recordings-of-others'));
    writeFileSync(path.join(dir, 'recordings-of-others', 'x.wav'), 'secret');
    symlinkSync(outside, path.join(folder, 'link.wav'));
    symlinkSync(dir, path.join(folder, 'link'));
    const wrong = [
      outside,
      path.join(dir, 'recordings-of-others', 'x.wav'),
      `${pathToFileURL(folder).href}/../secret.wav`,
      `${pathToFileURL(folder).href}/%2e%2e/secret.wav`,
      `${pathToFileURL(folder).href}/..%2fsecret.wav`,
      `${pathToFileURL(folder).href}/a%00b.wav`,
      path.join(folder, 'link.wav'),
      path.join(folder, 'link', 'secret.wav'),
      path.join(folder, '2026-01-15'),
      path.join(folder, 'x'.repeat(300)),
      'file://elsewhere/etc/passwd',
      '/dev/zero',
    ];
    for (const file of wrong) {
      const id = await recordedCall(file);
      const answer = await api.request('GET', `/v1/calls/${id}/recording`);
      expect([answer.status, answer.body.code], file).toEqual([404, 'NOT_FOUND']);
      expect((await api.request('DELETE', `/v1/calls/${id}`)).status, file).toBe(204);
    }
    expect(existsSync(outside)).toBe(true);
    for (const id of ['..%2f..%2fsecret.wav', '%00', '../../secret.wav']) {
      const answer = await api.request('GET', `/v1/calls/${id}/recording`);
      expect([400, 404], id).toContain(answer.status);
    }
  });

  it('goes with the record', async () => {
    const { id, file } = await recording();
    const url = new URL((await api.request('GET', `/v1/calls/${id}`)).body.recording_url);
    expect((await api.request('DELETE', `/v1/calls/${id}`, { key: api.b.key })).status).toBe(404);
    expect(existsSync(file)).toBe(true);
    expect((await api.request('DELETE', `/v1/calls/${id}`)).status).toBe(204);
    expect(existsSync(file)).toBe(false);
    expect((await raw(url.pathname + url.search)).statusCode).toBe(401);
  });
});

describe('pausing a recording', () => {
  it('passes the command on, and says when there is none', async () => {
    const id = api.store.calls.begin({
      organizationId: api.a.organizationId,
      mode: 'live',
      direction: 'inbound',
      fromNumber: 'x',
      toNumber: 'y',
      phoneNumberId: '0198aaaa-0000-7000-8000-000000000001',
      endpointId: null,
    });
    expect((await api.request('POST', `/v1/calls/${id}/recording/pause`)).body.id).toBe(id);
    expect((await api.request('POST', `/v1/calls/${id}/recording/resume`)).status).toBe(200);
    expect(api.commands.map(({ command }) => command)).toEqual([
      { kind: 'recording', paused: true },
      { kind: 'recording', paused: false },
    ]);
    api.answerCommands(() => ({ ok: false, code: 'failed', message: 'The call is not being recorded.' }));
    const refused = await api.request('POST', `/v1/calls/${id}/recording/pause`);
    expect([refused.status, refused.body.code]).toEqual([409, 'CALL_COMMAND_FAILED']);
  });
});

describe('a Range header', () => {
  it.each([
    [undefined, null],
    ['bytes=0-', { from: 0, to: 99 }],
    ['bytes=10-19', { from: 10, to: 19 }],
    ['bytes=90-200', { from: 90, to: 99 }],
    ['bytes=-5', { from: 95, to: 99 }],
    ['bytes=-500', { from: 0, to: 99 }],
    ['bytes=100-', 'unsatisfiable'],
    ['bytes=-0', 'unsatisfiable'],
    ['bytes=20-10', null],
    ['bytes=-', null],
    ['bytes=0-1,5-6', null],
    ['lines=0-1', null],
    ['bytes=99999999999999999999-', null],
  ])('%s', (header, expected) => expect(byteRange(header, 100)).toEqual(expected));
});
