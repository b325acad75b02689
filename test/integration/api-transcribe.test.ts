import { readdirSync } from 'node:fs';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openAiEngine, TranscriptionError } from '../../src/transcription/engine.js';
import { type TestApi, testApi } from '../support/api.js';

/** A stand-in for the engine: what it was asked, and what it answers. */
const asked: { path: string; authorization?: string; body: string }[] = [];
let answer: (path: string, response: ServerResponse, body: string) => void;
let engine: Server;
let api: TestApi;
let port: number;

beforeAll(async () => {
  engine = createServer(async (incoming: IncomingMessage, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString('latin1');
    asked.push({ path: incoming.url ?? '', authorization: incoming.headers.authorization, body });
    answer(incoming.url ?? '', response, body);
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => engine.once('listening', resolve));
});
afterAll(() => {
  engine.closeAllConnections();
  engine.close();
});

const engineUrl = () => `http://127.0.0.1:${(engine.address() as AddressInfo).port}/v1`;
const start = async (options = {}) => {
  const settings = { url: engineUrl(), key: 'sk-1', model: 'whisper-1', translationModel: 'chat-1' };
  const server = openAiEngine(settings);
  api = await testApi({ transcription: server, translation: server, ...options });
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  port = (api.app.server.address() as AddressInfo).port;
};
beforeEach(async () => {
  asked.length = 0;
  answer = (path, response) =>
    response.end(
      JSON.stringify(
        path.endsWith('/transcriptions')
          ? { text: ' Hello there. ' }
          : { model: 'chat-1-2026', choices: [{ message: { content: 'Hallo.' } }] },
      ),
    );
  await start();
});
afterEach(async () => {
  await api.close();
  expect(readdirSync(tmpdir()).filter((name) => name.startsWith('trunkline-upload-'))).toEqual([]);
});

const uploads = () => readdirSync(tmpdir()).filter((name) => name.startsWith('trunkline-upload-')).length;
const wav = (bytes = 2_000) => {
  const audio = Buffer.alloc(44 + bytes);
  audio.write('RIFF', 0, 'latin1');
  audio.writeUInt32LE(0xffff_ffff, 4); // a length that lies
  audio.write('WAVEfmt ', 8, 'latin1');
  return audio;
};
const form = (fields: Record<string, string>, file: Buffer | null = wav(), name = 'a.wav') => {
  const data = new FormData();
  for (const [field, value] of Object.entries(fields)) data.set(field, value);
  if (file) data.set('file', new Blob([new Uint8Array(file)], { type: 'image/png' }), name);
  return data;
};
const post = async (body: FormData | string, headers: Record<string, string> = {}) => {
  const response = await fetch(`http://127.0.0.1:${port}/api/v1/transcribe`, {
    method: 'POST',
    headers: { authorization: `Bearer ${api.a.key}`, ...headers },
    body,
  });
  // biome-ignore lint/suspicious/noExplicitAny: bodies of any shape
  return { status: response.status, headers: response.headers, body: (await response.json()) as any };
};

describe('POST /api/v1/transcribe', () => {
  it('answers the text of a file', async () => {
    const { status, body, headers } = await post(form({}, wav(), '../../etc/passwd'));
    expect([status, body]).toEqual([
      200,
      { choices: [{ text: 'Hello there.' }], model: 'whisper-1', object: 'transcription' },
    ]);
    expect(headers.get('x-ratelimit-limit')).toBe('1000');
    expect(asked).toHaveLength(1);
    expect(asked[0]).toMatchObject({ path: '/v1/audio/transcriptions', authorization: 'Bearer sk-1' });
    expect(asked[0]?.body).toContain('filename="audio.wav"');
    expect(asked[0]?.body).toContain('WAVEfmt');
    expect(asked[0]?.body).not.toContain('passwd');
  });

  it('translates into another language', async () => {
    const { status, body } = await post(form({ target_language: 'de' }));
    expect([status, body]).toEqual([
      200,
      { choices: [{ text: 'Hallo.' }], model: 'chat-1-2026', object: 'translation' },
    ]);
    expect(JSON.parse(asked[1]?.body ?? '')).toMatchObject({
      model: 'chat-1',
      messages: [{}, { content: 'Hello there.' }],
    });
    expect((await post(form({ target_language: 'en' }))).body.object).toBe('transcription');
  });

  it('says what is wrong with a form', async () => {
    const refused = async (body: FormData | string, headers = {}) => {
      const answered = await post(body, headers);
      return [answered.status, answered.body.code];
    };
    expect(await refused(form({}, null))).toEqual([400, 'MISSING_FILE']);
    expect(await refused(form({}, Buffer.alloc(0)))).toEqual([400, 'MISSING_FILE']);
    expect(await refused(form({ target_language: 'a; drop' }))).toEqual([400, 'VALIDATION_ERROR']);
    expect(await refused(form({ colour: 'red' }))).toEqual([400, 'VALIDATION_ERROR']);
    expect(await refused(form({}, Buffer.from('GIF89a, not audio at all')))).toEqual([415, 'UNSUPPORTED_MEDIA_TYPE']);
    expect(await refused('{}', { 'content-type': 'application/json' })).toEqual([415, 'UNSUPPORTED_MEDIA_TYPE']);
    expect(await refused('x', { 'content-type': 'multipart/form-data' })).toEqual([400, 'VALIDATION_ERROR']);
    const open = { 'content-type': 'multipart/form-data; boundary=b' };
    expect(await refused('--b\r\ncontent-disposition: form-data; name="file"; filename="x"\r\n\r\nRIFF', open)).toEqual(
      [400, 'VALIDATION_ERROR'],
    );
    const parts = Array.from({ length: 1_000 }, (_, n) => [`f${n}`, 'x']);
    expect(await refused(form(Object.fromEntries(parts)))).toEqual([400, 'VALIDATION_ERROR']);
    expect(await refused(form({}, wav(25_000_100)))).toEqual([413, 'FILE_TOO_LARGE']);
    expect(asked).toEqual([]);
    const jsonOnly = await fetch(`http://127.0.0.1:${port}/v1/trunks`, {
      method: 'POST',
      headers: { authorization: `Bearer ${api.a.key}` },
      body: form({}),
    });
    expect(jsonOnly.status).toBe(415);
  });

  it('says when no engine is set up, after looking at the form', async () => {
    await api.close();
    await start({ transcription: undefined });
    const unset = await post(form({}));
    expect([unset.status, unset.body.code]).toEqual([503, 'TRANSCRIPTION_UNAVAILABLE']);
    for (const remedy of ['npx trunkline setup speech', 'TRUNKLINE_TRANSCRIPTION_URL'])
      expect(unset.body.error).toContain(remedy);
    expect((await post(form({}, null))).body.code).toBe('MISSING_FILE');
  });

  it('says what a translation needs before anything is recognized; English needs none', async () => {
    await api.close();
    await start({ translation: undefined });
    const unset = await post(form({ target_language: 'de' }));
    expect([unset.status, unset.body.code]).toEqual([503, 'TRANSLATION_UNAVAILABLE']);
    expect(unset.body.error).toContain('TRUNKLINE_TRANSLATION_URL');
    expect(asked).toEqual([]);
    expect((await post(form({ target_language: 'en-GB' }))).status).toBe(200);
  });

  it('refuses for a while when the engine has too much to do', async () => {
    await api.close();
    const transcribe = () => Promise.reject(new TranscriptionError('Too much waits', undefined, true));
    await start({ transcription: { transcribe } });
    const { status, body, headers } = await post(form({}));
    expect([status, body.code, body.error]).toEqual([503, 'SERVICE_UNAVAILABLE', 'Too much waits']);
    expect(headers.get('retry-after')).toBe('5');
  });

  it('says when the engine fails, without its words', async () => {
    for (const status of [400, 401, 429, 500]) {
      answer = (_path, response) => response.writeHead(status).end('{"error":"key sk-1 is bad"}');
      const failed = await post(form({}));
      expect([failed.status, failed.body.code, failed.body.details]).toEqual([
        502,
        'TRANSCRIPTION_FAILED',
        { upstream_status: status },
      ]);
      expect(JSON.stringify(failed.body)).not.toContain('sk-1');
    }
    for (const wrong of ['not json', '{}', 'null', '{"text":7}', '[]']) {
      answer = (_path, response) => response.end(wrong);
      expect((await post(form({}))).body.code, wrong).toBe('TRANSCRIPTION_FAILED');
    }
    answer = (_path, response) => response.socket?.destroy();
    expect((await post(form({}))).body.code).toBe('TRANSCRIPTION_FAILED');
  });

  it('stops asking the engine when the client hangs up, and leaves nothing', async () => {
    const engineGone = new Promise<void>((resolve) => {
      answer = (_path, response) => {
        response.once('close', () => resolve());
        client.destroy();
      };
    });
    const body = await new Response(form({})).blob();
    const client = request({
      host: '127.0.0.1',
      port,
      path: '/api/v1/transcribe',
      method: 'POST',
      headers: { authorization: `Bearer ${api.a.key}`, 'content-type': body.type },
    });
    client.on('error', () => {});
    client.end(Buffer.from(await body.arrayBuffer()));
    await engineGone;
    while (uploads() > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  });

  it('leaves nothing when the client hangs up in the middle of the file', async () => {
    const client = request({
      host: '127.0.0.1',
      port,
      path: '/api/v1/transcribe',
      method: 'POST',
      headers: {
        authorization: `Bearer ${api.a.key}`,
        'content-type': 'multipart/form-data; boundary=b',
        'content-length': '1000000',
      },
    });
    client.on('error', () => {});
    client.write('--b\r\ncontent-disposition: form-data; name="file"; filename="x"\r\n\r\nRIFF');
    while (uploads() === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    client.destroy();
    while (uploads() > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  });
});
