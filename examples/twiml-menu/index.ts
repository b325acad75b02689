/**
 * A webhook endpoint in TwiML: the same documents that Twilio accepts.
 *
 * As a program: `node dist/examples/twiml-menu/index.js --port 8092`. An application with Express and the `twilio` package works unchanged;
 * this one needs only Node.
 */
import { serveAnswers, webhookProgram } from '../webhook-server.js';

const documents: Record<string, (fields: URLSearchParams) => string> = {
  '/voice': () => `<Gather numDigits="1" action="/menu">
    <Say>Welcome. Press one to hear your number, two for the echo, three to leave a message.</Say>
  </Gather>
  <Say>We heard nothing. Goodbye.</Say>`,
  '/menu': (fields) => {
    const spelled = (fields.get('From') ?? '').replace(/\D/g, '').split('').join(' ');
    if (fields.get('Digits') === '1') return `<Say>You are ${spelled === '' ? 'anonymous' : spelled}.</Say>`;
    if (fields.get('Digits') === '2') return '<Connect><Stream url="ws://127.0.0.1:8090/twilio"/></Connect>';
    if (fields.get('Digits') === '3')
      return '<Say>Speak after the tone.</Say><Record action="/recorded" maxLength="60" timeout="3"/>';
    return '<Redirect>/voice</Redirect>';
  },
  '/recorded': (fields) =>
    `<Say>This is what you said.</Say><Play>${escaped(fields.get('RecordingUrl') ?? '')}</Play><Hangup/>`,
};

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** Rejects when the port cannot be opened. */
export function startTwimlMenu(options: { port: number }) {
  return serveAnswers(options.port, (request, body) => {
    const verbs = documents[(request.url ?? '').split('?')[0] ?? ''];
    if (verbs === undefined) return { status: 404 };
    const text = `<?xml version="1.0" encoding="UTF-8"?>\n<Response>\n  ${verbs(new URLSearchParams(body))}\n</Response>\n`;
    return { status: 200, type: 'text/xml', body: text };
  });
}

await webhookProgram(import.meta.url, 8092, (port) => startTwimlMenu({ port }));
