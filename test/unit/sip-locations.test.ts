import { afterEach, describe, expect, it } from 'vitest';
import { type Binding, Bindings } from '../../sip/registrar/bindings.js';
import {
  type LocationDirectory,
  type LocationOptions,
  Locations,
  type SharedBinding,
} from '../../sip/registrar/locations.js';

const contact = 'sip:alice@10.0.0.7';
const second = 'sip:alice@10.0.0.8';

const bindings = new Bindings();
afterEach(() => bindings.close());

function binding(uri = contact, cseq = 1): Binding {
  const peer = { transport: 'udp' as const, address: new URL(uri.replace('sip:', 'http://')).hostname, port: 5060 };
  const expiresAtMs = performance.now() + 600_000;
  return { contact: uri, domain: 'us.example', peer, callId: 'c', cseq, priority: 1, expiresAtMs };
}

function sharedBy(node: string, uri = contact): SharedBinding {
  const { server: _server, through: _through, expiresAtMs: _expiresAtMs, ...rest } = binding(uri);
  return { ...rest, leftMs: 600_000, node, reach: { kind: 'direct' } };
}

/** A directory that answers when it is told to. */
function setUp() {
  const questions: ((found: SharedBinding[]) => void)[] = [];
  const restores: (() => void)[] = [];
  let restored = () => {};
  const directory: LocationDirectory = {
    node: 'here',
    find: () => new Promise((resolve) => questions.push(resolve)),
    change: async () => {},
    restore: () => new Promise((resolve) => restores.push(resolve)),
    addressesOf: () => null,
    onRestored: (listener) => {
      restored = listener;
    },
  };
  const options: LocationOptions = {
    directory,
    isLocal: () => true,
    secretOf: () => null,
    nameOf: () => '',
    serverOf: () => undefined,
    log: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
  };
  return { locations: new Locations(bindings, options), questions, restores, restore: () => restored() };
}

const nodesOf = (found: readonly Binding[]) => found.map(({ contact: uri, node }) => [uri, node ?? 'here']);

describe('the phones of several nodes', () => {
  it('one that moved to another node is reached there, and forgotten here', async () => {
    const { locations, questions } = setUp();
    await locations.change('alice', { set: [binding()], removed: [] });
    const found = locations.of('alice');
    questions.shift()?.([sharedBy('there')]);
    expect(nodesOf(await found)).toEqual([[contact, 'there']]);
    expect(bindings.of('alice')).toEqual([]);
  });

  it('one that comes back while the directory is asked stays here', async () => {
    const { locations, questions } = setUp();
    await locations.change('alice', { set: [binding()], removed: [] });
    const found = locations.of('alice');
    const back = binding(contact, 2);
    await locations.change('alice', { set: [back], removed: [] });
    questions.shift()?.([sharedBy('there')]);
    expect(nodesOf(await found)).toEqual([[contact, 'here']]);
    expect(bindings.of('alice')).toEqual([back]);
  });

  it('one that registers while another is found to have moved is kept', async () => {
    const { locations, questions } = setUp();
    await locations.change('alice', { set: [binding()], removed: [] });
    const found = locations.of('alice');
    await locations.change('alice', { set: [binding(second)], removed: [] });
    questions.shift()?.([sharedBy('there')]);
    expect(nodesOf(await found).sort()).toEqual([
      [contact, 'there'],
      [second, 'here'],
    ]);
    expect(bindings.of('alice').map((each) => each.contact)).toEqual([second]);
  });

  it('one that left through another node is not called any more', async () => {
    const { locations, questions } = setUp();
    await locations.change('alice', { set: [binding()], removed: [] });
    const found = locations.of('alice');
    questions.shift()?.([]);
    expect(await found).toEqual([]);
  });

  it('a directory that lost everything does not hide them while they are added again', async () => {
    const { locations, questions, restores, restore } = setUp();
    await locations.change('alice', { set: [binding()], removed: [] });
    restore();
    const found = locations.of('alice');
    questions.shift()?.([]);
    expect(nodesOf(await found)).toEqual([[contact, 'here']]);
    restores.shift()?.();
    await new Promise(setImmediate);
    const later = locations.of('alice');
    questions.shift()?.([]);
    expect(await later).toEqual([]);
  });
});
