/**
 * A carrier that only signals, in a process of its own: INVITE, ACK, and BYE after a while, at an exact rate, with the retransmissions of RFC 3261.
 * One UDP socket, no parsing beyond what a call needs, so that it costs the gateway as little of the machine as it can.
 */
import { createSocket } from 'node:dgram';

export interface Load {
  port: number;
  number: string;
  callsPerSec: number;
  seconds: number;
  /** From the ACK to the BYE. */
  holdMs: number;
}

export interface LoadResult {
  offered: number;
  answered: number;
  /** Answered and hung up without a retransmission. */
  clean: number;
  refused: number;
  failed: number;
  retransmissionsSent: number;
  repeatsHeard: number;
  /** INVITE to 200, and INVITE to 503. */
  answerMs: Quantiles;
  refusalMs: Quantiles;
  /** Per 250 ms from the start: offered, answered, refused. */
  windows: { offered: number; answered: number; refused: number }[];
  /** Of one core. */
  cpuPercent: number;
}

export interface Quantiles {
  p50: number;
  p99: number;
  worst: number;
}

const t1Ms = 500;
const giveUpMs = 64 * t1Ms;
const windowMs = 250;

interface Placed {
  id: number;
  sentAtMs: number;
  state: 'inviting' | 'ringing' | 'talking' | 'leaving' | 'over';
  repeats: number;
  nextAtMs: number;
  delayMs: number;
  toTag: string;
  target: string;
  finalAtMs: number;
}

function run(load: Load): Promise<LoadResult> {
  const socket = createSocket({ type: 'udp4', recvBufferSize: 8 * 1024 * 1024, sendBufferSize: 4 * 1024 * 1024 });
  const calls = new Map<number, Placed>();
  const byes: Placed[] = [];
  const due: Placed[] = [];
  const result = { offered: 0, answered: 0, clean: 0, refused: 0, failed: 0, retransmissionsSent: 0, repeatsHeard: 0 };
  const windows: LoadResult['windows'] = [];
  const answerMs: number[] = [];
  const refusalMs: number[] = [];
  const stamp = `${process.pid}x${Date.now()}`;
  const callIds = `\r\nCall-ID: ${stamp}-`;
  let own = 0;
  const sdp = `v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 40000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n`;
  const send = (text: string) => socket.send(text, load.port, '127.0.0.1');
  const head = (method: string, call: Placed, cseq: number, branch: string, to: string, uri: string, end: string) =>
    `${method} ${uri} SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:${own};branch=z9hG4bK${branch}\r\nMax-Forwards: 70\r\nFrom: <sip:+15550001111@127.0.0.1>;tag=f${call.id}\r\nTo: <sip:${load.number}@127.0.0.1>${to}\r\nCall-ID: ${stamp}-${call.id}\r\nCSeq: ${cseq} ${method}\r\n${end}`;
  const noBody = 'Content-Length: 0\r\n\r\n';
  const called = `sip:${load.number}@127.0.0.1:${load.port}`;
  const invite = (call: Placed) =>
    send(
      head(
        'INVITE',
        call,
        1,
        `i${stamp}${call.id}`,
        '',
        called,
        `Contact: <sip:c@127.0.0.1:${own}>\r\nContent-Type: application/sdp\r\nContent-Length: ${sdp.length}\r\n\r\n${sdp}`,
      ),
    );
  const ack = (call: Placed, success: boolean, toTag: string) =>
    send(
      head(
        'ACK',
        call,
        1,
        `${success ? 'a' : 'i'}${stamp}${call.id}`,
        `;tag=${toTag}`,
        success ? call.target : called,
        noBody,
      ),
    );
  const bye = (call: Placed) =>
    send(head('BYE', call, 2, `b${stamp}${call.id}`, `;tag=${call.toTag}`, call.target, noBody));
  const windowAt = (ms: number) =>
    (windows[Math.floor((ms - startMs) / windowMs)] ??= { offered: 0, answered: 0, refused: 0 });
  let startMs = 0;

  const over = (call: Placed, how: 'clean' | 'refused' | 'failed') => {
    call.state = 'over';
    if (how === 'clean' && call.repeats > 0) return;
    result[how]++;
  };

  socket.on('message', (bytes) => {
    const text = bytes.toString('latin1');
    const at = text.indexOf(callIds);
    const call =
      at < 0 ? undefined : calls.get(Number.parseInt(text.slice(at + callIds.length, at + callIds.length + 12), 10));
    if (!call) return;
    if (!text.startsWith('SIP/2.0 ')) {
      if (!text.startsWith('BYE ')) return;
      const vias = text.match(/^Via: .*$/m)?.[0] ?? '';
      const line = (name: string) => text.match(new RegExp(`^${name}: .*$`, 'm'))?.[0] ?? '';
      send(
        `SIP/2.0 200 OK\r\n${vias}\r\n${line('From')}\r\n${line('To')}\r\n${line('Call-ID')}\r\n${line('CSeq')}\r\n${noBody}`,
      );
      if (call.state !== 'over') over(call, 'failed');
      return;
    }
    const status = Number(text.slice(8, 11));
    const isInvite = text.includes(' INVITE\r\n');
    const now = performance.now();
    if (status < 200) {
      if (call.state === 'inviting') call.state = 'ringing';
      return;
    }
    const toTag = /^To: [^\r]*;tag=([^\s;]+)/m.exec(text)?.[1] ?? '';
    if (!isInvite) {
      if (call.state === 'leaving') over(call, 'clean');
      return;
    }
    if (status >= 300) {
      ack(call, false, toTag);
      if (call.state === 'over') {
        result.repeatsHeard++;
        return;
      }
      if (status === 503) {
        refusalMs.push(now - call.sentAtMs);
        windowAt(call.sentAtMs).refused++;
        over(call, 'refused');
      } else over(call, 'failed');
      return;
    }
    call.target = /^Contact: <([^>]+)>/m.exec(text)?.[1] ?? called;
    ack(call, true, toTag);
    if (call.state !== 'inviting' && call.state !== 'ringing') {
      result.repeatsHeard++;
      call.repeats++;
      return;
    }
    call.state = 'talking';
    call.toTag = toTag;
    call.finalAtMs = now;
    answerMs.push(now - call.sentAtMs);
    windowAt(call.sentAtMs).answered++;
    result.answered++;
    byes.push(call);
  });

  return new Promise((resolve) => {
    socket.bind(0, '127.0.0.1', () => {
      own = socket.address().port;
      const cpuFrom = process.cpuUsage();
      startMs = performance.now();
      let next = 0;
      const wanted = Math.round(load.callsPerSec * load.seconds);
      const timer = setInterval(() => {
        const now = performance.now();
        while (next < wanted && startMs + (next * 1000) / load.callsPerSec <= now) {
          const call: Placed = {
            ...{
              id: next++,
              sentAtMs: performance.now(),
              state: 'inviting',
              repeats: 0,
              nextAtMs: now + t1Ms,
              delayMs: t1Ms,
            },
            ...{ toTag: '', target: called, finalAtMs: 0 },
          };
          calls.set(call.id, call);
          due.push(call);
          result.offered++;
          windowAt(call.sentAtMs).offered++;
          invite(call);
        }
        while (byes.length > 0 && byes[0]!.finalAtMs + load.holdMs <= now) {
          const call = byes.shift()!;
          if (call.state !== 'talking') continue;
          call.state = 'leaving';
          call.delayMs = t1Ms;
          call.nextAtMs = now + t1Ms;
          bye(call);
          due.push(call);
        }
        // requests without an answer, for retransmission, in the order of sending, which is nearly the order of their timers
        for (let i = 0; i < due.length && i < 4000; i++) {
          const call = due[i]!;
          if (call.nextAtMs > now) {
            if (i > 200 && call.nextAtMs > now + 400) break;
            continue;
          }
          const waits = call.state === 'inviting' || call.state === 'leaving';
          if (!waits || now - call.sentAtMs > giveUpMs) {
            if (waits) over(call, 'failed');
            due.splice(i--, 1);
            continue;
          }
          if (call.state === 'inviting') invite(call);
          else bye(call);
          call.repeats++;
          result.retransmissionsSent++;
          call.delayMs *= 2;
          call.nextAtMs = now + call.delayMs;
        }
        const open = () => [...calls.values()].some((call) => call.state !== 'over');
        const lateMs = now - startMs - load.seconds * 1000;
        if (next < wanted || (lateMs < 10_000 + load.holdMs && open())) return;
        clearInterval(timer);
        for (const call of calls.values()) if (call.state !== 'over') over(call, 'failed');
        const cpu = process.cpuUsage(cpuFrom);
        socket.close();
        resolve({
          ...result,
          answerMs: quantiles(answerMs),
          refusalMs: quantiles(refusalMs),
          windows: Array.from(windows, (window) => window ?? { offered: 0, answered: 0, refused: 0 }),
          cpuPercent: ((cpu.user + cpu.system) / 1000 / (now - startMs)) * 100,
        });
      }, 1);
    });
  });
}

function quantiles(values: number[]): Quantiles {
  const sorted = values.sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return { p50: at(0.5), p99: at(0.99), worst: at(1) };
}

process.on('message', (load: Load) => void run(load).then((result) => process.send?.(result)));
// the parent process is gone
process.on('disconnect', () => process.exit());
