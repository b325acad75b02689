/** Calls of the carrier simulator requested by the API: from a simulated phone to the SIP address of this server, over the network. */
import type { SimulateCall } from './api/routes/routing/simulator.js';
import type { CallTarget } from './simulator/phone/phone.js';

const speech = { kind: 'tone', frequencyHz: 440 } as const;

export function simulatedCaller(target: () => CallTarget): SimulateCall {
  return async (plan, signal) => {
    const { placeCall } = await import('./simulator/place-call.js');
    const recording = await placeCall({ ...plan, speech, target: target() }, signal);
    return recording.report();
  };
}

/** Where a caller on this machine reaches a server that listens there. */
export function localTarget(addresses: readonly { transport: string; host: string; port: number }[]): CallTarget {
  const udp = addresses.find(({ transport }) => transport === 'udp');
  if (!udp) throw new Error('SIP over UDP is off: the simulator cannot call.');
  return { host: udp.host === '0.0.0.0' ? '127.0.0.1' : udp.host, port: udp.port, transport: 'udp' };
}
