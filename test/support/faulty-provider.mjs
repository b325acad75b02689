/**
 * A simulated provider in a process of its own that does one bad thing when it has greeted: what it costs it must not cost the test.
 * Runs on the built files. Arguments: the provider and the fault.
 */
import { providerProtocols } from '../../dist/src/simulator/providers/registry.js';
import { simulateProvider } from '../../dist/src/simulator/providers/serve.js';

const minute = Buffer.alloc(8000 * 60, 0x31);
const many = (count, act) => {
  for (let i = 0; i < count; i++) act();
};
const delta = { type: 'response.output_audio.delta', item_id: 'item_x', delta: minute.toString('base64') };
const inlineData = { mimeType: 'audio/pcm;rate=24000', data: Buffer.alloc(48_000 * 10, 1).toString('base64') };
const part = JSON.stringify({ serverContent: { modelTurn: { parts: [{ inlineData }] } } });

const faults = {
  minutes: ({ wire }) => many(11, () => wire.sendText(JSON.stringify(delta))),
  bareMinutes: ({ wire }) => many(11, () => wire.sendBinary(minute)),
  wideMinutes: ({ wire }) => many(60, () => wire.sendText(part)),
  tinyFrames: ({ wire }) => many(100_000, () => wire.sendBinary(Buffer.alloc(4))),
  tinyTexts({ wire, received }) {
    const { streamSid } = received.find(({ event }) => event === 'start');
    const text = JSON.stringify({ event: 'media', streamSid, media: { payload: '/////w==' } });
    many(100_000, () => wire.sendText(text));
  },
  deepJson: ({ wire }) => many(20, () => wire.sendText('['.repeat(500_000) + ']'.repeat(500_000))),
  hugeMessage: ({ wire }) => wire.sendBinary(Buffer.alloc(50 * 1024 * 1024)),
  garbage: ({ wire }) => many(100_000, () => wire.sendText('nonsense')),
  deaf: ({ wire }) => wire.stopReading(),
};

const [provider, fault] = process.argv.slice(2);
const simulator = await simulateProvider(providerProtocols.get(provider), {
  port: 0,
  greetingMs: 100,
  onEvent(event) {
    if (event.type !== 'said' || simulator.calls.length > 1) return;
    setTimeout(() => faults[fault](simulator.calls[0]), 50);
  },
});
process.send(simulator.url);
