/** Where a call is in a conference, whichever node has it. */
import type { ConferenceJoin as ConferenceAction, WaitMusic } from '../../webhook/actions.js';
import type { Application } from '../party/application.js';
import type { MediaControl } from '../party/media-control.js';

/** What another node must know to go on with a conference and with one of its participants. Sent as JSON. */
export interface ResumedStay {
  conferenceId: string;
  /** The conference had started. */
  isRunning: boolean;
  /** The action of the first participant of all. */
  founding: ConferenceAction;
  muted: boolean;
  held: boolean;
  endsRoom: boolean;
}

/** The audio of a place. */
export interface PlaceAudio {
  /** Resolves when something else took the party's media. */
  ended: Promise<unknown>;
  leave(): Promise<unknown>;
}

export interface ConferencePlace {
  /** The address of the node that has the conference; '': this node. */
  readonly owner: string;
  readonly conference: { readonly id: string; readonly name: string };
  /** What the participant hears instead of the others; null: it hears them. */
  readonly music: WaitMusic | null;
  /**
   * Resolves when the participant has to leave. `moved`: its conference has another owner now, or will have; `lost`: the owner cannot be reached.
   */
  readonly removed: Promise<'left' | 'kicked' | 'moved' | 'lost'>;
  /** Called when `music` may have changed. */
  onChange: () => void;
  /** Of recordings in the record of this call that another node makes at the moment. */
  readonly openRecordings: readonly string[];
  /** As of now. */
  readonly resumable: ResumedStay;
  /** The participant hears the others and is heard; null: the application does not have the party, or the room is full. */
  join(control: MediaControl, application: Application): PlaceAudio | null;
  /** The participant left for good. Resolves when what it is about is written. */
  leave(reason: 'left' | 'kicked'): Promise<void>;
}
