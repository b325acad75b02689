import { describe, expect, it } from 'vitest';
import { traceContextOf } from '../../src/call/core/trace-context.js';

const trace = '0af7651916cd43dd8448eb211c80319c';
const span = 'b7ad6b7169203331';

describe('traceparent', () => {
  it.each([
    ['of a sampled span', `00-${trace}-${span}-01`],
    ['of one that is not', `00-${trace}-${span}-00`],
    ['of a later version', `01-${trace}-${span}-01`],
    ['of a later version with more', `cc-${trace}-${span}-01-what-the-future-will-be-like`],
  ])('%s is read', (_, header) => {
    expect(traceContextOf(header)).toEqual({ traceId: trace, spanId: span });
  });

  it.each([
    ['absent', undefined],
    ['twice', [`00-${trace}-${span}-01`, `00-${trace}-${span}-01`]],
    ['empty', ''],
    ['in capitals', `00-${trace.toUpperCase()}-${span}-01`],
    ['of the forbidden version', `ff-${trace}-${span}-01`],
    ['of version 0 with more', `00-${trace}-${span}-01-x`],
    ['without a trace', `00-${'0'.repeat(32)}-${span}-01`],
    ['without a span', `00-${trace}-${'0'.repeat(16)}-01`],
    ['too short', `00-${trace.slice(1)}-${span}-01`],
    ['with other letters', `00-${trace.replace('0', 'g')}-${span}-01`],
  ])('%s is ignored', (_, header) => {
    expect(traceContextOf(header)).toBeUndefined();
  });
});
