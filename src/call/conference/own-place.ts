import type { WaitMusic } from '../../webhook/actions.js';
import type { Application } from '../party/application.js';
import type { MediaControl } from '../party/media-control.js';
import type { Conference } from './conference.js';
import type { Participant } from './participant.js';
import type { ConferencePlace, PlaceAudio, ResumedStay } from './place.js';

/** A place in a conference of this node. */
export class OwnPlace implements ConferencePlace {
  readonly owner = '';
  readonly openRecordings = [];

  constructor(
    readonly conference: Conference,
    private readonly participant: Participant,
  ) {}

  get music(): WaitMusic | null {
    return this.participant.music;
  }

  get removed(): Participant['removed'] {
    return this.participant.removed;
  }

  set onChange(on: () => void) {
    this.participant.onChange = on;
  }

  get resumable(): ResumedStay {
    return resumableOf(this.conference, this.participant);
  }

  join(control: MediaControl, application: Application): PlaceAudio | null {
    const { participant, conference } = this;
    const seat = control.join(application, conference.room, { muted: participant.muted });
    if (seat === null) return null;
    participant.sitsOn(seat);
    const leave = () => {
      participant.sitsOn(null);
      return seat.leave();
    };
    return { ended: seat.ended, leave };
  }

  async leave(reason: 'left' | 'kicked'): Promise<void> {
    this.conference.leave(this.participant, reason);
  }
}

export function resumableOf(conference: Conference, { muted, held, endsRoom }: Participant): ResumedStay {
  const { id: conferenceId, hasStarted: isRunning, founding } = conference;
  return { conferenceId, isRunning, founding, muted, held, endsRoom };
}
