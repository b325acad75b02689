/** Too much of everything: malformed messages, a stranger's flood beside calls with sound, more calls than there is room for (S14, S16, S18, X10). */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { Worker } from 'node:worker_threads';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { SipResponse } from '../../sip/server/message/message.js';
import { FarEnds } from '../support/far-ends.js';
import { answered, demo, faultScene, undisturbed } from '../support/fault-scene.js';
import { oddMessages } from '../support/odd-messages.js';
import { startScriptedAgent } from '../support/scripted-agent.js';
import { SipPeer } from '../support/sip-peer.js';

const timersMs = { t1: 40, t2: 320, t4: 400 };
/** Addresses that no trunk names. */
const strangers = ['127.0.0.9', '127.0.0.10', '127.0.0.11'] as const;

/** INVITEs, OPTIONS, REGISTERs and garbage from a thread of its own, until `stop`, which answers how many were sent. */
async function flood(port: number, host: string): Promise<() => Promise<number>> {
  const program = `
    const { workerData: { port, host }, parentPort } = require('node:worker_threads');
    const socket = require('node:dgram').createSocket('udp4');
    let sent = 0;
    const packet = (n) => {
      const method = ['INVITE', 'OPTIONS', 'REGISTER'][n % 3];
      if (n % 4 === 3) return 'INVITE sip:' + '%'.repeat(n % 50) + ' SIP/2.0\\r\\nX\\r\\n\\r\\n';
      return method + ' sip:+1' + n + '@h SIP/2.0\\r\\nVia: SIP/2.0/UDP ' + host + ':5;rport;branch=z9hG4bKf' + n + '\\r\\nFrom: <sip:a@h>;tag=' + n +
        '\\r\\nTo: <sip:+1' + n + '@h>\\r\\nCall-ID: f' + n + '\\r\\nCSeq: 1 ' + method + '\\r\\nContact: <sip:a@h>\\r\\nContent-Length: 0\\r\\n\\r\\n';
    };
    socket.bind(0, host, () => {
      const timer = setInterval(() => { for (let i = 0; i < 2; i++) socket.send(packet(sent++), port, '127.0.0.1'); }, 1);
      parentPort.on('message', () => { clearInterval(timer); socket.close(); parentPort.postMessage(sent); parentPort.close(); });
      parentPort.postMessage('begun');
    });`;
  const worker = new Worker(program, { eval: true, workerData: { port, host } });
  const said = () => new Promise((resolve) => worker.once('message', resolve));
  await said();
  return async () => {
    const sent = said();
    const gone = new Promise((resolve) => worker.once('exit', resolve));
    worker.postMessage('stop');
    const count = Number(await sent);
    await gone;
    return count;
  };
}

describe('from outside', () => {
  const lines: string[] = [];
  const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) });
  const scene = faultScene({
    timersMs,
    start: { sipTrusted: ['127.0.0.1/32'], log },
    prepare: async (app) => {
      const [loopback] = await app.store.trunks.allForSip();
      await app.api('PATCH', `/v1/trunks/${loopback?.id}`, { addresses: ['127.0.0.1/32'] });
    },
  });
  const shed = async () => (await scene.app.sip.serverStats()).shed;

  it('a stranger floods beside a call with sound: no gap, calls come and go, next to no records and log lines (S16, X10)', async () => {
    await undisturbed(scene, async (attempt) => {
      const before = await shed();
      const logged = lines.length;
      const stop = await flood(scene.port, strangers[attempt]!);
      for (let wave = 0; wave < 4; wave++) for (const call of await answered(scene.ends, 5)) await call.bye();
      const dropped = async () => {
        const { rateLimited, silenced } = await shed();
        return rateLimited + silenced - before.rateLimited - before.silenced;
      };
      await expect.poll(dropped, { timeout: 20_000 }).toBeGreaterThan(1500);
      await stop();
      expect((await shed()).offenders - before.offenders).toBe(1);
      expect(lines.length - logged).toBeLessThan(20);
    });
    expect((await scene.app.store.rejectedInvites.list({ limit: 1, offset: 0 })).total).toBeLessThanOrEqual(150);
  });

  it('and hears nothing more for a while, whatever it says; a trunk is heard as ever (S16)', async () => {
    const outside = await FarEnds.open(scene.port, strangers[0]);
    const sink = outside.call(demo);
    const [inside] = await answered(scene.ends, 1);
    await inside!.bye();
    expect(sink.received).toEqual([]);
    await outside.close();
  });

  it('and learns nothing of numbers: one of ours and one of nobody are answered with the same bytes (S16)', async () => {
    const outside = await FarEnds.open(scene.port, '127.0.0.12');
    const answers = [];
    for (const number of [demo, '+15550199']) {
      const call = outside.call(number);
      await call.final();
      const [answer] = call.received.filter((m) => m instanceof SipResponse && m.status >= 200);
      answers.push(
        answer?.raw
          .toString('latin1')
          .replaceAll(number, 'NUMBER')
          .replace(/(branch=|tag=)[^;\s]*/g, '$1x')
          .replace(/^(Call-ID|Date): .*$/gim, '$1: x'),
      );
    }
    expect(answers[0]).toMatch(/^SIP\/2\.0 4\d\d /);
    expect(answers[1]).toBe(answers[0]);
    await outside.close();
  });

  it('agents say 10,000 things that mean nothing: their calls end, and next to nothing is logged, none of it their words (X10)', async () => {
    scene.baseline = null; // connections to the agent stay open for a while
    const agent = await startScriptedAgent({
      onConnect: (socket) => {
        for (let i = 0; i < 10_000; i++) socket.send(`{"secret-${i}": "4111111111111111`);
      },
    });
    await scene.app.connectNumber('+12025557200', agent.url, { protocol: 'raw' });
    const logged = lines.length;
    const calls = Array.from({ length: 3 }, () => scene.ends.call('+12025557200'));
    for (const call of calls) expect([200, 480, 503]).toContain(await call.final());
    for (const call of calls.filter((each) => each.finalStatus === 200)) await call.ended();
    await agent.close();
    const said = lines.slice(logged);
    expect(said.length).toBeLessThan(20);
    expect(said.join()).not.toMatch(/secret-|4111/);
  });
});

describe('malformed', () => {
  const scene = faultScene({ timersMs });

  it('every message of test/torture, and 150 made up: nothing is disturbed, and no record comes of it (S14)', async () => {
    await undisturbed(scene, async (attempt) => {
      scene.records = 3 * (attempt + 1);
      const folder = path.resolve(import.meta.dirname, '../torture');
      const peer = await SipPeer.open(scene.port);
      for (const name of readdirSync(folder).filter((each) => each.endsWith('.sip'))) {
        const text = readFileSync(path.join(folder, name), 'utf8');
        peer.send(Buffer.from(text.slice(text.indexOf('\n', text.indexOf('# answer:')) + 1).replaceAll('\n', '\r\n')));
      }
      const [first] = await answered(scene.ends, 1);
      for (const message of oddMessages(peer, 150)) peer.send(message);
      const [second] = await answered(scene.ends, 1);
      await first!.bye();
      await second!.bye();
      await peer.close();
    });
  });
});

describe('more calls than there is room for', () => {
  const scene = faultScene({ timersMs, start: { sipLimits: { openInvites: 8 } } });

  it('hear 503 with Retry-After at once; those within, and those that run, do not feel it; then all is as before (S18)', async () => {
    scene.hasRecord = (call) => call.finalStatus !== 503;
    await undisturbed(scene, async () => {
      const calls = Array.from({ length: 80 }, () => scene.ends.call(demo));
      const statuses = await Promise.all(calls.map((call) => call.final()));
      expect(new Set(statuses)).toEqual(new Set([200, 503]));
      for (const call of calls.filter((each) => each.finalStatus === 503)) {
        const refusal = call.received.find((m) => m instanceof SipResponse && m.status === 503);
        expect(Number(refusal?.get('retry-after'))).toBeGreaterThan(0);
      }
      for (const call of calls.filter((each) => each.finalStatus === 200)) await call.bye();
      for (const call of await answered(scene.ends, 5)) await call.bye();
    });
  });
});
