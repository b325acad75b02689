/** The API of running conferences: lists and changes participants (mute, hold, remove) and adds them by a call. */
import { randomUUID } from 'node:crypto';
import {
  type ConferencesOfAllNodes,
  ConferenceUnreachable,
  type ShownConference,
  type ShownParticipant,
} from '../../call/conference/conferences-of-all-nodes.js';
import type { ParticipantChange } from '../../call/conference/participant.js';
import { type ConferenceJoin as ConferenceAction, maxSeats, type WaitMusic } from '../../webhook/actions.js';
import { ApiError, invalid, notFound } from '../errors.js';
import { startOutbound } from '../rules/start-outbound.js';
import { Form, refuse } from './form.js';
import { onePage } from './pages.js';
import { callIdOf, conferenceIdOf, participantIn, presentConference, presentParticipant } from './resources.js';
import {
  askedByForm,
  callingEndpoint,
  partiesOf,
  type TwilioAnswer,
  type TwilioOptions,
  type TwilioRoute,
} from './route.js';

export const conferenceRoutes: TwilioRoute[] = [
  { method: 'GET', path: 'Conferences.json', handle: listConferences },
  {
    method: 'GET',
    path: 'Conferences/:conference',
    handle: async (...asked) => ({ status: 200, body: presentConference(await conferenceOf(...asked)) }),
  },
  { method: 'POST', path: 'Conferences/:conference', handle: updateConference },
  { method: 'GET', path: 'Conferences/:conference/Participants.json', handle: listParticipants },
  { method: 'POST', path: 'Conferences/:conference/Participants.json', handle: createParticipant },
  {
    method: 'GET',
    path: 'Conferences/:conference/Participants/:participant',
    handle: async (...asked) => ({ status: 200, body: presentParticipant(...(await participantOf(...asked))) }),
  },
  { method: 'POST', path: 'Conferences/:conference/Participants/:participant', handle: updateParticipant },
  {
    method: 'DELETE',
    path: 'Conferences/:conference/Participants/:participant',
    handle: async (...asked) => {
      const [{ scope, id }, { callId }] = await participantOf(...asked);
      await reached(asked, (conferences) => conferences.kick(scope, id, callId));
      return { status: 204, body: null };
    },
  },
];

type Asked = Parameters<TwilioRoute['handle']>;

async function listConferences(...[request, { scope }, { conferences }]: Asked): TwilioAnswer {
  const { FriendlyName: name, Status: status } = request.query as { FriendlyName?: string; Status?: string };
  const all = (await conferences?.list(scope)) ?? [];
  const wanted = all.filter(
    (each) => (name === undefined || each.name === name) && (status === undefined || each.status === status),
  );
  return { status: 200, body: onePage('conferences', request, wanted.map(presentConference)) };
}

async function updateConference(...asked: Asked): TwilioAnswer {
  const { scope, id } = await conferenceOf(...asked);
  const status = new Form(asked[0]).get('Status');
  if (status !== 'completed') throw invalid({ path: 'Status', message: 'must be completed' });
  const ended = await reached(asked, (conferences) => conferences.end(scope, id));
  if (ended === undefined) throw notFound('Conference');
  return { status: 200, body: presentConference(ended) };
}

async function listParticipants(...asked: Asked): TwilioAnswer {
  const [request] = asked;
  const { Muted: muted, Hold: hold } = request.query as { Muted?: string; Hold?: string };
  const conference = await conferenceOf(...asked);
  const wanted = conference.participants.filter(
    (each) =>
      (muted === undefined || String(each.muted) === muted) && (hold === undefined || String(each.held) === hold),
  );
  return {
    status: 200,
    body: onePage(
      'participants',
      request,
      wanted.map((each) => presentParticipant(conference, each)),
    ),
  };
}

async function updateParticipant(...asked: Asked): TwilioAnswer {
  const [request, , { allowPrivateTargets }] = asked;
  const [{ scope, id }, { callId }] = await participantOf(...asked);
  const form = new Form(request);
  const [muted, held, endsRoom] = [form.flag('Muted'), form.flag('Hold'), form.flag('EndConferenceOnExit')];
  const holdMusic = form.followUp('HoldUrl', 'HoldMethod', allowPrivateTargets);
  const change: ParticipantChange = {
    ...(muted === null ? {} : { muted }),
    ...(held === null ? {} : { held }),
    ...(endsRoom === null ? {} : { endsRoom }),
    ...(holdMusic === null ? {} : { holdMusic }),
  };
  const changed = await reached(asked, (conferences) => conferences.update(scope, id, callId, change));
  const participant = changed?.participants.find((each) => each.callId === callId);
  if (changed === undefined || participant === undefined) throw notFound('Participant');
  return { status: 200, body: presentParticipant(changed, participant) };
}

/** Calls a participant into a conference, which is created if there is none of this name. */
async function createParticipant(...asked: Asked): TwilioAnswer {
  const [request, caller, options] = asked;
  const form = new Form(request);
  const { conference: idOrName } = request.params as { conference: string };
  const found = await reached(asked, (conferences) =>
    conferences.find(caller.scope, conferenceIdOf(idOrName) ?? idOrName),
  );
  if (found === undefined && conferenceIdOf(idOrName) !== null) throw notFound('Conference');
  const parties = partiesOf(form, options);
  const endpoint = await callingEndpoint(parties.fromNumber, caller, options.store);
  const id = found?.id ?? randomUUID();
  const { callId, start } = await startOutbound(options, options.rules, caller, {
    ...askedByForm(form, { ...parties, endpointId: endpoint.id }, options.allowPrivateTargets),
    instructions: { actions: [joining(form, id, found?.name ?? idOrName, options)] },
    status: form.statusCallback('StatusCallback', ['completed'], options.allowPrivateTargets),
    warnings: form.warnings,
  });
  start();
  const body = {
    ...participantIn(caller.scope.organizationId, id, callId),
    label: form.get('Label'),
    status: 'queued',
  };
  return { status: 201, body };
}

const beeps = { true: [true, true], false: [false, false], onEnter: [true, false], onExit: [false, true] } as const;

function joining(form: Form, id: string, name: string, { allowPrivateTargets }: TwilioOptions): ConferenceAction {
  const beep = form.get('Beep') ?? 'true';
  const [entered, left] = Object.hasOwn(beeps, beep)
    ? beeps[beep as keyof typeof beeps]
    : refuse('Beep', 'must be true, false, onEnter or onExit');
  const record = form.get('ConferenceRecord');
  const wait: WaitMusic = form.followUp('WaitUrl', 'WaitMethod', allowPrivateTargets) ?? 'tone';
  return {
    action: 'conference',
    id,
    name,
    label: form.get('Label'),
    startOnEnter: form.flag('StartConferenceOnEnter') ?? true,
    endOnExit: form.flag('EndConferenceOnExit') ?? false,
    muted: form.flag('Muted') ?? false,
    beep: { entered, left },
    wait,
    maxParticipants: Math.round(form.seconds('MaxParticipants', 2, maxSeats, maxSeats)),
    record: record === 'true' || record === 'record-from-start',
    recordingStatus: form.statusCallback('ConferenceRecordingStatusCallback', ['completed'], allowPrivateTargets),
    timeLimitSec: 86_400,
    hangupOnStar: false,
    status: form.statusCallback('ConferenceStatusCallback', ['start', 'end'], allowPrivateTargets),
    next: null,
  };
}

async function conferenceOf(...asked: Asked): Promise<ShownConference> {
  const [request, { scope }] = asked;
  const sid = (request.params as { conference: string }).conference.replace(/\.json$/, '');
  const id = conferenceIdOf(sid);
  const conference = id === null ? undefined : await reached(asked, (conferences) => conferences.find(scope, id));
  if (!conference) throw notFound('Conference');
  return conference;
}

/** Finds a participant by the sid of its call or by its label. */
async function participantOf(...asked: Asked): Promise<[ShownConference, ShownParticipant]> {
  const { participant: asName } = asked[0].params as { participant: string };
  const name = asName.replace(/\.json$/, '');
  const wanted = callIdOf(name);
  const conference = await conferenceOf(...asked);
  const found = conference.participants.find(({ callId, label }) => callId === wanted || label === name);
  if (!found) throw notFound('Participant');
  return [conference, found];
}

/** Asks the node that has the conference; undefined: none has it. */
async function reached<T>(
  [, , { conferences }]: Asked,
  ask: (conferences: ConferencesOfAllNodes) => Promise<T | undefined>,
): Promise<T | undefined> {
  try {
    return conferences && (await ask(conferences));
  } catch (error) {
    if (error instanceof ConferenceUnreachable) throw new ApiError('SERVICE_UNAVAILABLE', error.message);
    throw error;
  }
}
