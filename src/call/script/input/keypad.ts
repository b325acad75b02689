/** The keys that were pressed, and why the input ended. */
export interface KeyedInput {
  digits: string;
  reason: 'finish_key' | 'num_digits' | 'timeout';
}

export interface KeyRules {
  /** False: keys are ignored; only the timeout and speech end the input. */
  digits: boolean;
  /** null: no limit. */
  numDigits: number | null;
  finishOnKey: string;
  timeoutMs: number;
  /** After a key. */
  betweenKeysMs: number;
}

/** The keys of one phone, for the action that waits for them; otherwise they are dropped. */
export class Keypad {
  private taker: ((digit: string) => void) | null = null;

  press(digit: string): void {
    this.taker?.(digit);
  }

  /**
   * Collects keys until the rules are met. `prompts` plays meanwhile, and the first key or word stops it. The timeout counts from its end
   * and again from every key; it stops when speech begins. Rejects with the reason of `signal`, or what `prompts` rejects with.
   */
  async collect(
    rules: KeyRules,
    prompts: (stop: AbortSignal) => Promise<void>,
    signal: AbortSignal,
    speech: { begun: Promise<void>; giveUp(): void } | null = null,
  ): Promise<KeyedInput> {
    const bargeIn = new AbortController();
    const over = new AbortController();
    let digits = '';
    let timer: NodeJS.Timeout | undefined;
    let speaking = false;
    try {
      return await new Promise<KeyedInput>((resolve, reject) => {
        const wait = (ms: number) => {
          clearTimeout(timer);
          if (speaking) return;
          timer = setTimeout(() => resolve({ digits, reason: 'timeout' }), ms);
        };
        void speech?.begun.then(() => {
          speaking = digits === '';
          bargeIn.abort();
          if (speaking) clearTimeout(timer);
        });
        this.taker = (digit) => {
          if (!rules.digits) return;
          // Speech during DTMF entry is ignored.
          speech?.giveUp();
          speaking = false;
          bargeIn.abort();
          if (rules.finishOnKey.includes(digit)) return resolve({ digits, reason: 'finish_key' });
          digits += digit;
          if (digits.length === rules.numDigits) return resolve({ digits, reason: 'num_digits' });
          wait(rules.betweenKeysMs);
        };
        signal.addEventListener('abort', () => reject(signal.reason), { once: true, signal: over.signal });
        if (signal.aborted) reject(signal.reason);
        prompts(AbortSignal.any([signal, bargeIn.signal])).then(
          () => {
            if (!bargeIn.signal.aborted) wait(rules.timeoutMs);
          },
          (error: unknown) => {
            if (!bargeIn.signal.aborted) reject(error);
          },
        );
      });
    } finally {
      this.taker = null;
      clearTimeout(timer);
      bargeIn.abort();
      over.abort();
    }
  }

  /** Resolves with the first of these keys. Rejects with the reason of `signal`. */
  async oneOf(keys: string, signal: AbortSignal): Promise<string> {
    return new Promise((resolve, reject) => {
      const end = () => {
        this.taker = null;
        reject(signal.reason);
      };
      this.taker = (digit) => {
        if (!keys.includes(digit)) return;
        this.taker = null;
        signal.removeEventListener('abort', end);
        resolve(digit);
      };
      signal.addEventListener('abort', end, { once: true });
      if (signal.aborted) end();
    });
  }
}
