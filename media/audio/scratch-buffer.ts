/** A buffer that is reused for each call and grows to the longest length requested. */
export class ScratchBuffer<T extends Int16Array | Uint8Array | Float64Array> {
  private whole: T;
  private view: T;
  constructor(private readonly Type: new (length: number) => T) {
    this.whole = new Type(0);
    this.view = this.whole;
  }

  ofLength(length: number): T {
    if (this.view.length === length) return this.view;
    if (this.whole.length < length) this.whole = new this.Type(length);
    this.view = this.whole.subarray(0, length) as T;
    return this.view;
  }
}
