/** Debian's Kamailio as a proxy that stays in the path of every call (Record-Route), between a Trunkline and a phone. */
import { spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { freePort } from './port-ranges.js';

export interface Kamailio {
  port: number;
  close(): Promise<void>;
}

/** What comes from `oursPort` goes to the phone, everything else to us; answers and requests in a dialog go by their routes. */
const configuration = (port: number, oursPort: number, phonePort: number) => `
debug=-1
log_stderror=yes
children=1
auto_aliases=no
disable_tcp=yes
listen=udp:127.0.0.1:${port}
loadmodule "tm.so"
loadmodule "sl.so"
loadmodule "rr.so"
loadmodule "pv.so"
loadmodule "maxfwd.so"
loadmodule "siputils.so"
loadmodule "textops.so"
request_route {
  if (!mf_process_maxfwd_header("10")) { sl_send_reply("483", "Too Many Hops"); exit; }
  if (is_method("CANCEL")) { if (t_check_trans()) t_relay(); exit; }
  if (has_totag()) {
    if (loose_route()) { t_relay(); exit; }
    if (is_method("ACK")) { if (t_check_trans()) t_relay(); exit; }
    sl_send_reply("404", "No route");
    exit;
  }
  if (is_method("INVITE")) record_route();
  if ($sp == ${oursPort}) { $du = "sip:127.0.0.1:${phonePort}"; } else { $du = "sip:127.0.0.1:${oursPort}"; }
  t_relay();
}
`;

/** Rejects with a clear sentence when it is not installed, or with what it complained of. */
export async function startKamailio(oursPort: number, phonePort: number): Promise<Kamailio> {
  const folder = await mkdtemp(path.join(tmpdir(), 'kamailio-'));
  const port = await freePort();
  await writeFile(path.join(folder, 'kamailio.cfg'), configuration(port, oursPort, phonePort));
  const args = [
    '-f',
    path.join(folder, 'kamailio.cfg'),
    '-DD',
    '-E',
    '-m',
    '16',
    '-M',
    '4',
    '-Y',
    folder,
    '-w',
    folder,
  ];
  const child = spawn('kamailio', args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (data) => {
    said += data;
  });
  let over = false;
  const exited = new Promise<void>((resolve, reject) => {
    child.once('error', () => reject(new Error('This test needs kamailio: apt-get install kamailio')));
    child.once('exit', () => resolve());
  });
  exited.then(
    () => (over = true),
    () => (over = true),
  );
  const close = async () => {
    if (!over) child.kill('SIGTERM');
    await exited;
    await rm(folder, { recursive: true, force: true });
  };
  for (let tries = 0; tries < 100 && !over; tries++) {
    if (await isTaken(port)) return { port, close };
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await close();
  throw new Error(`kamailio did not start:\n${said.slice(0, 2000)}`);
}

function isTaken(port: number): Promise<boolean> {
  const socket = createSocket('udp4');
  return new Promise((resolve) => {
    socket.once('error', () => resolve(true));
    socket.bind(port, '127.0.0.1', () => socket.close(() => resolve(false)));
  });
}
