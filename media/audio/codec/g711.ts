/** G.711: conversion between both laws and linear PCM, with tables built once from the recommendation's segment formulas. */

/** The code of a silent sample. */
export const silenceByte = { PCMU: 0xff, PCMA: 0xd5 } as const;

function decodeUlaw(code: number): number {
  const bits = ~code & 0xff;
  const magnitude = ((((bits & 0x0f) << 3) + 0x84) << ((bits >> 4) & 7)) - 0x84;
  return bits & 0x80 ? -magnitude : magnitude;
}

function encodeUlaw(sample: number): number {
  const magnitude = Math.min(Math.abs(sample), 32635) + 0x84;
  const exponent = 24 - Math.clz32(magnitude);
  const mantissa = (magnitude >> (exponent + 3)) & 0x0f;
  return ~((sample < 0 ? 0x80 : 0) | (exponent << 4) | mantissa) & 0xff;
}

function decodeAlaw(code: number): number {
  const bits = code ^ 0x55;
  const exponent = (bits >> 4) & 7;
  const mantissa = bits & 0x0f;
  const magnitude = exponent === 0 ? (mantissa << 4) + 8 : ((mantissa << 4) + 0x108) << (exponent - 1);
  return bits & 0x80 ? magnitude : -magnitude;
}

function encodeAlaw(sample: number): number {
  const magnitude = sample < 0 ? ~sample : sample;
  const exponent = magnitude < 256 ? 0 : 24 - Math.clz32(magnitude);
  const mantissa = (exponent === 0 ? magnitude >> 4 : magnitude >> (exponent + 3)) & 0x0f;
  return ((sample < 0 ? 0 : 0x80) | (exponent << 4) | mantissa) ^ 0x55;
}

const codes = Array.from({ length: 256 }, (_, code) => code);

/** Linear 16 bit sample of each code. */
export const ulawToLinear = Int16Array.from(codes, decodeUlaw);
export const alawToLinear = Int16Array.from(codes, decodeAlaw);

/** Code of each linear sample; index with `sample & 0xffff`. */
export const linearToUlaw = new Uint8Array(65536);
export const linearToAlaw = new Uint8Array(65536);
for (let sample = -32768; sample < 32768; sample++) {
  linearToUlaw[sample & 0xffff] = encodeUlaw(sample);
  linearToAlaw[sample & 0xffff] = encodeAlaw(sample);
}

/** Direct conversion between the laws. */
export const ulawToAlaw = Uint8Array.from(codes, (code) => encodeAlaw(decodeUlaw(code)));
export const alawToUlaw = Uint8Array.from(codes, (code) => encodeUlaw(decodeAlaw(code)));

/** Maps bytes by a table, in place when `to` is `from`. */
export function mapBytes(from: Uint8Array, table: Uint8Array, to: Uint8Array): void {
  for (let i = 0; i < from.length; i++) to[i] = table[from[i]!]!;
}
