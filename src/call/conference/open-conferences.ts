/** Puts the conferences of this node together with those of the others. */
import type { MediaEngine, MediaPolicy } from '../../../media/engine.js';
import type { SipGateway } from '../../../sip/leg.js';
import type { Store } from '../../store/store.js';
import type { PartialRecordings } from '../recording/recordings.js';
import { Conferences } from './conferences.js';
import { ConferencesOfAllNodes } from './conferences-of-all-nodes.js';
import { Guests } from './guests.js';
import { linkPurpose } from './node-link.js';
import { OtherNodesConferences } from './other-nodes.js';

export interface OpenConferences {
  ofThisNode: Conferences;
  ofAllNodes: ConferencesOfAllNodes;
  /** Gives the conferences of this node to the others, and ends the links with them. */
  close(): Promise<void>;
}

export function openConferences(deps: {
  media: MediaEngine;
  policy: MediaPolicy;
  sip: SipGateway;
  takes: PartialRecordings;
  store: Store;
}): OpenConferences {
  const { media, policy, sip, takes, store } = deps;
  const { conferenceOwners: owners, nodeCommands: commands } = store;
  const ofThisNode = new Conferences(
    (seats) => media.room(seats),
    owners && new OtherNodesConferences(owners, { media, policy, sip }),
  );
  const guests = new Guests({
    ...{ media, policy, takes, conferences: ofThisNode },
    lateEvent: (...event) => store.calls.event(...event),
  });
  sip.onNodeCall(linkPurpose, (incoming, conferenceId) => guests.take(incoming, conferenceId));
  const ofAllNodes = new ConferencesOfAllNodes(
    ofThisNode,
    owners &&
      commands && {
        owners: (...asked) => owners.otherOwners(...asked),
        send: (...command) => commands.sendToNode(...command),
        serve: (handle) => commands.serveNode(handle),
      },
  );
  const close = async () => {
    await ofThisNode.close();
    await guests.close();
  };
  return { ofThisNode, ofAllNodes, close };
}
