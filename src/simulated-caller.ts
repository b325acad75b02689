/** Calls of the carrier simulator requested by the API: from a simulated phone to the SIP address of this server, over the network. */
import type { SimulateCall, SimulatedCallPlan } from './api/routes/routing/simulator.js';
import type { CallPlan, CallTarget } from './simulator/phone/phone.js';

export function simulatedCaller(target: () => CallTarget): SimulateCall {
  return async ({ speech, ...plan }, signal) => {
    const { placeCall } = await import('./simulator/place-call.js');
    const said = await soundOf(speech);
    // Markers measure the way there and back of an echo; a talking caller would say them to an agent.
    const recording = await placeCall({ ...plan, ...said, markers: speech === 'tone', target: target() }, signal);
    return recording.report();
  };
}

async function soundOf(speech: SimulatedCallPlan['speech']): Promise<{ speech: CallPlan['speech'] }> {
  if (speech === 'silence') return { speech: { kind: 'silence' } };
  if (speech === 'tone') return { speech: { kind: 'tone', frequencyHz: 440 } };
  const { noise, questioner } = await import('./simulator/greetings.js');
  return { speech: speech === 'noise' ? noise() : questioner() };
}

/** Where a caller on this machine reaches a server that listens there. */
export function localTarget(addresses: readonly { transport: string; host: string; port: number }[]): CallTarget {
  const udp = addresses.find(({ transport }) => transport === 'udp');
  if (!udp) throw new Error('SIP over UDP is off: the simulator cannot call.');
  return { host: udp.host === '0.0.0.0' ? '127.0.0.1' : udp.host, port: udp.port, transport: 'udp' };
}
