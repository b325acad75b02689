/** The part of a logger the store uses; pino fits. */
export interface StoreLog {
  info(fields: object, text: string): void;
  warn(fields: object, text: string): void;
  error(fields: object, text: string): void;
}

export const silentLog: StoreLog = { info() {}, warn() {}, error() {} };
