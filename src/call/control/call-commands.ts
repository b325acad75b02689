import { MediaError, type MediaSession } from '../../../media/engine.js';
import type { HangupSource } from '../../store/database/tables.js';
import type { CallCommand, CommandResult } from '../core/command.js';
import type { CallParty } from '../party/party.js';
import { defaultPassage } from '../redaction/redaction.js';
import type { RequestedRecordings } from './requested-recordings.js';
import { transfer } from './transfer.js';

/** Carries out a command of the API: the applications of the party are asked first. */
export async function commandByApi(
  command: CallCommand,
  party: CallParty,
  {
    limits: { transferTimeoutMs },
    recordings,
  }: { limits: { transferTimeoutMs: number }; recordings: RequestedRecordings },
): Promise<CommandResult> {
  if (!party.control.isOpen) return { ok: false, code: 'not_answered', message: 'The call is not answered yet.' };
  const recorded = recordings.command(command, party);
  if (recorded !== null) return recorded;
  return party.control.command(command) ?? carryOut(command, 'api', party, transferTimeoutMs);
}

/** Carries out a command of the API, of an agent or of a webhook on an answered call. */
export async function carryOut(
  command: CallCommand,
  source: Extract<HangupSource, 'api' | 'agent'>,
  party: CallParty,
  transferTimeoutMs: number,
): Promise<CommandResult> {
  const { call, session } = party;
  switch (command.kind) {
    case 'hangup':
      call.end({ cause: source === 'agent' ? 'agent_hangup' : 'normal_clearing', source });
      return { ok: true };
    case 'dtmf':
      try {
        await sendKeys(session, command.digits);
        call.event('dtmf.sent', {
          ...(call.redaction.hidesKey() ? { redacted: true } : { digits: command.digits }),
          source,
        });
        return { ok: true };
      } catch (error) {
        return {
          ok: false,
          code: 'failed',
          message: error instanceof Error ? error.message : 'The digits were not sent.',
        };
      }
    case 'recording':
      if (call.recording === null) return { ok: false, code: 'failed', message: 'The call is not being recorded.' };
      call.recording.pause(command.paused);
      return { ok: true };
    case 'redaction':
      if (!command.on) call.redaction.stop();
      else {
        const { on: _, kind: __, ...terms } = command;
        call.redaction.start(source, { ...defaultPassage, ...terms });
      }
      return { ok: true };
    case 'begin_recording':
    case 'change_recording':
      return { ok: false, code: 'failed', message: 'Only the API begins and changes such a recording.' };
    case 'redirect':
      return { ok: false, code: 'failed', message: notRedirected(party) };
    case 'transfer':
      return transfer(command, source, party, transferTimeoutMs);
  }
}

function notRedirected({ control }: CallParty): string {
  if (control.isTransferred) return 'The call was transferred, so no webhook controls it any more.';
  return 'Only calls of webhook endpoints can be redirected.';
}

/** Sends RTP events (RFC 4733), or tones to a phone that did not negotiate them. */
async function sendKeys(session: MediaSession, digits: string): Promise<void> {
  try {
    await session.sendDtmf(digits);
  } catch (error) {
    if (!(error instanceof MediaError) || error.code !== 'no_telephone_event') throw error;
    await session.sendDtmf(digits, 'tone');
  }
}
