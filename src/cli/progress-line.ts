/** How far a long command is: one line of a terminal that is written over; elsewhere a line now and then. */
import type { CliContext } from './context.js';

const barLength = 24;
const terminalEveryMs = 200;
const otherwiseEveryMs = 10_000;

export class ProgressLine {
  private shownMs = performance.now();
  private isOpen = false;

  constructor(
    private readonly context: CliContext,
    private readonly isWanted: boolean,
    private readonly terminal: NodeJS.WriteStream | null = process.stderr.isTTY ? process.stderr : null,
  ) {}

  /** `of` null: the end is not known; `leftMs` null: the time left is not. */
  show(text: string, done: number, of: number | null, leftMs: number | null): void {
    const nowMs = performance.now();
    if (!this.isWanted || nowMs - this.shownMs < (this.terminal ? terminalEveryMs : otherwiseEveryMs)) return;
    this.shownMs = nowMs;
    const line = progressText(text, done, of, leftMs);
    if (this.terminal === null) {
      this.context.err(line);
      return;
    }
    this.isOpen = true;
    this.terminal.write(`\r\u001b[K${line}`);
  }

  end(): void {
    if (this.isOpen) this.terminal?.write('\r\u001b[K');
    this.isOpen = false;
  }
}

/** `[######------] 50 %  call_events  2 min left`. */
export function progressText(text: string, done: number, of: number | null, leftMs: number | null): string {
  if (of === null || of === 0) return text;
  const share = Math.min(1, done / of);
  const full = Math.floor(share * barLength);
  const bar = `[${'#'.repeat(full)}${'-'.repeat(barLength - full)}] ${Math.floor(share * 100)} %`;
  return [bar, text, ...(leftMs === null ? [] : [`${duration(leftMs)} left`])].join('  ');
}

function duration(ms: number): string {
  const seconds = Math.ceil(ms / 1000);
  if (seconds < 90) return `${seconds} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}
