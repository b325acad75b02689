/** The stay of a call in a conference, from one owner of the conference to the next. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { WaitMusic } from '../../webhook/actions.js';
import type { Application } from '../party/application.js';
import type { ConferenceEntry, Conferences } from './conferences.js';
import type { ConferencePlace, PlaceAudio, ResumedStay } from './place.js';

/** Between attempts to find the conference. */
const searchEveryMs = 300;

/** `full`: there was no place in it any more when it was found again. */
export type LeaveReason = 'left' | 'kicked' | 'full';

/**
 * Enters a conference, and enters it again when its owner is lost or gives it away. Until it is found, at this node, at another one, or anew at
 * whichever comes first, the participant hears the music that it would hear before the start.
 */
export class Attendance {
  /** Of the conference, as far as it is known. */
  conference: { readonly id: string; readonly name: string };
  /** Resolves when the call has to leave. */
  readonly removed: Promise<LeaveReason>;
  remove!: (reason: LeaveReason) => void;
  private place: ConferencePlace | null = null;
  private resumed: ResumedStay | null = null;
  private shown: { place: ConferencePlace | null; music: WaitMusic | null } | null = null;
  /** Of the owner that was lost: whether they end well is known when another node has the conference. */
  private readonly lostRecordings: string[] = [];
  private tellChange: () => void = () => {};
  private owner = '';
  private searching: Promise<void> | null = null;

  /** `signal`: the call leaves. */
  constructor(
    private readonly conferences: Conferences,
    private readonly entry: Omit<ConferenceEntry, 'resumed'>,
    private readonly signal: AbortSignal,
  ) {
    const { id, name } = entry.action;
    this.conference = { id: id ?? '', name };
    this.removed = new Promise((resolve) => {
      this.remove = resolve;
    });
  }

  /** Enters, or begins to search when the conference cannot be reached at the moment. */
  async enter(): Promise<'entered' | 'searching' | 'full'> {
    const isFound = await this.attempt();
    if (isFound === null) this.searching = this.search();
    return isFound === null ? 'searching' : isFound ? 'entered' : 'full';
  }

  /** What the participant hears instead of the others; null: it hears them. */
  get music(): WaitMusic | null {
    return this.place === null ? this.entry.action.wait : this.place.music;
  }

  /** Resolves when the participant hears something else now. */
  nextChange(): Promise<void> {
    this.shown = { place: this.place, music: this.music };
    return new Promise((resolve) => {
      this.tellChange = resolve;
    });
  }

  /** The participant hears the others and is heard; null: something else has its media. */
  join(application: Application): PlaceAudio | null {
    return this.place?.join(this.entry.party.control, application) ?? null;
  }

  /** When `signal` has aborted. Resolves when everything is written. */
  async leave(reason: 'left' | 'kicked'): Promise<void> {
    await this.searching;
    await this.place?.leave(reason);
  }

  /** True: it has a place. False: the conference is full. null: it is not known, or its owner cannot be reached. */
  private async attempt(): Promise<boolean | null> {
    const { entry, resumed, signal } = this;
    const entering = this.conferences.enter({ ...entry, resumed }, signal);
    let found: Awaited<typeof entering>;
    try {
      found = await orAborted(entering, signal);
    } catch {
      // nobody waits for what comes after the call left
      if (signal.aborted)
        entering.then(async (late) => void ('fullId' in late || (await late.leave('left')))).catch(() => {});
      return null;
    }
    if ('fullId' in found) {
      this.conference = { id: found.fullId, name: entry.action.name };
      return false;
    }
    this.sitDown(found);
    return true;
  }

  private sitDown(place: ConferencePlace): void {
    this.place = place;
    if (place.owner !== this.owner) this.failRecordings();
    this.owner = place.owner;
    this.conference = place.conference;
    place.onChange = () => this.changed();
    this.changed();
    void place.removed.then((reason) => {
      if (place !== this.place || this.signal.aborted) return;
      if (reason === 'left' || reason === 'kicked') return this.remove(reason);
      this.resumed = place.resumable;
      if (reason === 'lost') this.lostRecordings.push(...place.openRecordings);
      this.place = null;
      const { id: conference_id, name } = place.conference;
      this.entry.host.call.event('conference.left', {
        conference_id,
        name,
        reason: reason === 'lost' ? 'node_lost' : 'moved',
      });
      void place.leave('left');
      this.changed();
      this.searching = this.search();
    });
  }

  /** The node that made them is dead, or has lost its lease. */
  private failRecordings(): void {
    for (const recording_id of this.lostRecordings.splice(0)) {
      const about = { recording_id, source: 'conference', duration_ms: 0, bytes: 0 };
      this.entry.host.call.event('recording.failed', {
        ...about,
        message: 'The node that recorded the conference was lost.',
      });
    }
  }

  private async search(): Promise<void> {
    while (!this.signal.aborted) {
      const isFound = await this.attempt();
      if (isFound === true) return;
      if (isFound === false) return this.remove('full');
      await sleep(searchEveryMs, undefined, { signal: this.signal }).catch(() => {});
    }
  }

  private changed(): void {
    if (this.shown?.place === this.place && this.shown.music === this.music) return;
    this.tellChange();
  }
}

/** Rejects as soon as the signal aborts: the call must not wait for a database or a node that does not answer. */
function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const over = () => reject(signal.reason);
    signal.addEventListener('abort', over, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', over));
  });
}
