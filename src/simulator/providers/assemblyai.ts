/** AssemblyAI Voice Agent: the first update makes the session; the agent replies when it is asked to, or when it has heard something. */
import { randomUUID } from 'node:crypto';
import { decodeAudio, encodeAudio, type WireEncoding } from './codec.js';
import { jsonOf, type ProviderProtocol, within } from './provider-protocol.js';

const encodings: Record<string, WireEncoding> = { 'audio/pcmu': 'ulaw', 'audio/pcma': 'alaw', 'audio/pcm': 'l16' };

export const assemblyai: ProviderProtocol = {
  provider: 'assemblyai',
  path: '/v1/ws',
  late: true,
  refuse: ({ headers }) => (/^Bearer .+/.test(headers.authorization ?? '') ? null : 401),
  open(wire, agentInput) {
    let encoding: WireEncoding | null = null;
    let calls = 0;
    let utterances = 0;
    const texts = new Map<number, string>();
    const reply = (turn: number | string) => ({ reply_id: `reply_${turn}` });
    const error = (code: string, message: string) => wire.send({ type: 'session.error', code, message });
    const callTool = (name: string, args: Record<string, unknown>) => {
      calls += 1;
      wire.send({ type: 'reply.started', ...reply(`call_${calls}`) });
      wire.send({ type: 'tool.call', call_id: `call_${calls}`, name, arguments: args });
      wire.send({ type: 'reply.done', status: 'completed' });
    };
    return {
      message(data) {
        const message = typeof data === 'string' ? jsonOf(data) : null;
        if (message === null) return error('invalid_format', 'Invalid message format');
        if (message.type !== 'session.update' && encoding === null)
          return error('session_not_ready', 'The first message is session.update.');
        switch (message.type) {
          case 'session.update': {
            if (encoding !== null) return wire.send({ type: 'session.updated' });
            const session = within(message, 'session');
            const { encoding: named = 'audio/pcm' } = within(within(session, 'input'), 'format');
            encoding = encodings[String(named)] ?? 'l16';
            wire.send({ type: 'session.ready', session_id: randomUUID() });
            const rateHz = encoding === 'l16' ? 24000 : 8000;
            agentInput.begin({ listensHz: rateHz, speaksHz: rateHz });
            if (typeof session.greeting === 'string') agentInput.greet(session.greeting);
            return;
          }
          case 'input.audio':
            return agentInput.hear(decodeAudio(Buffer.from(String(message.audio), 'base64'), encoding ?? 'l16'));
          case 'reply.create':
            agentInput.greet();
            return agentInput.read(String(message.instructions ?? ''));
          case 'tool.result':
            return;
          case 'session.end':
            wire.send({ type: 'session.ended' });
            return wire.close(1000);
          default:
            return error('invalid_format', 'Unknown message type');
        }
      },
      interrupted: () => wire.send({ type: 'input.speech.started' }),
      utterance: () => wire.send({ type: 'input.speech.stopped' }),
      heard(text) {
        utterances += 1;
        wire.send({ type: 'transcript.user.delta', text });
        wire.send({ type: 'transcript.user', text, item_id: `item_${utterances}` });
      },
      said(text, turn) {
        texts.set(turn, text);
        wire.send({ type: 'reply.started', ...reply(turn) });
      },
      audio: (samples) =>
        wire.send({ type: 'reply.audio', data: encodeAudio(samples, encoding ?? 'l16').toString('base64') }),
      finished(turn) {
        const text = texts.get(turn) ?? '';
        texts.delete(turn);
        wire.send({ type: 'transcript.agent', text, ...reply(turn), item_id: `said_${turn}`, interrupted: false });
        wire.send({ type: 'reply.done', status: 'completed' });
      },
      hangUp: () => callTool('hang_up', {}),
      transfer: (to) => callTool('transfer_call', { to }),
      expire() {
        wire.send({ type: 'session.ended' });
        wire.close(1000);
      },
    };
  },
};
