/** The functions by which a model acts on the call: hang up; transfer and redaction where the endpoint's configuration has them. */
import { AgentConfigError, type Plain, type Sink } from './agent.js';
import type { ConfigObject } from './config-fields.js';
import { asObject, asText, type JsonObject, parseObject } from './json.js';

/** A function of the model, with its parameters in JSON Schema. */
export interface Tool {
  name: string;
  description: string;
  parameters: { [key: string]: Plain };
}

const NAME = /^[A-Za-z0-9_-]{1,64}$/;
/** A number or a SIP URI; the call decides which. */
const TRANSFER_TARGET = /^(\+?[0-9*#]{1,32}|sips?:[\x21-\x7e]{1,500})$/;
const NO_PARAMETERS = { type: 'object', properties: {}, required: [] };

/** Functions built into Trunkline. An entry of `tools` with one of these names needs no description. */
const OWN: Readonly<Record<string, Tool>> = {
  hang_up: {
    name: 'hang_up',
    description: 'Ends the phone call. Say goodbye first.',
    parameters: NO_PARAMETERS,
  },
  transfer_call: {
    name: 'transfer_call',
    description: 'Transfers the caller to another number or SIP address and leaves the call.',
    parameters: {
      type: 'object',
      properties: { to: { type: 'string', description: 'E.164 number or SIP URI.' } },
      required: ['to'],
    },
  },
  start_redaction: {
    name: 'start_redaction',
    description:
      'Call this before you ask for a card number, a PIN or another secret: keys, spoken numbers and audio are not stored until stop_redaction.',
    parameters: NO_PARAMETERS,
  },
  stop_redaction: {
    name: 'stop_redaction',
    description: 'The secret is complete: the call is stored again.',
    parameters: NO_PARAMETERS,
  },
};

/** `tools` of the configuration. When absent, the model may only hang up; with an empty list, nothing. */
export function readTools(config: ConfigObject): Tool[] {
  const raw = config.tools;
  if (raw === undefined || raw === null) return [OWN.hang_up as Tool];
  if (!Array.isArray(raw)) throw new AgentConfigError('tools', 'tools must be a list.');
  return raw.map(readTool);
}

/**
 * Performs the model's function call and returns the answer for the model. The call may be over by then, or refuse the transfer. `hangUp`:
 * how to hang up, for providers whose last words come after the function call.
 */
export function callTool(
  tools: readonly Tool[],
  name: unknown,
  args: unknown,
  sink: Sink,
  hangUp: () => void = () => sink.hangUp(),
): string {
  if (!tools.some((tool) => tool.name === name)) return 'There is no such tool.';
  if (name === 'hang_up') {
    hangUp();
    return 'The call ends as soon as your last words were played.';
  }
  if (name === 'start_redaction' || name === 'stop_redaction') {
    const on = name === 'start_redaction';
    sink.event({ type: 'redaction', change: { on } });
    return on ? 'What is said and typed from now on is not stored.' : 'The call is stored again.';
  }
  if (name !== 'transfer_call') return 'This tool cannot be used on the phone.';
  const to = asText(readArguments(args)?.to, 512);
  if (to === null || !TRANSFER_TARGET.test(to)) return 'The transfer needs a number or a SIP URI in "to".';
  sink.event({ type: 'transfer', to });
  return 'The transfer has begun.';
}

function readTool(raw: Plain): Tool {
  const tool = asObject(raw);
  // Also accepts the nested form of OpenAI's older API.
  const fields = asObject(tool?.function) ?? tool;
  const name = asText(fields?.name, 64);
  if (fields === null || name === null || !NAME.test(name))
    throw new AgentConfigError('tools', 'Each tool needs a name of letters, digits, _ and -.');
  const own = Object.hasOwn(OWN, name) ? OWN[name] : undefined;
  const description = asText(fields.description, 10_000) ?? own?.description ?? '';
  const parameters = (asObject(fields.parameters) ?? own?.parameters ?? NO_PARAMETERS) as Tool['parameters'];
  return { name, description, parameters };
}

/** Some providers send an object, others JSON in a string. */
function readArguments(args: unknown): JsonObject | null {
  return typeof args === 'string' ? parseObject(args) : asObject(args);
}
