import { expect, it } from 'vitest';
import { aboutAll, aboutItself, refusalsOf, within } from '../../dashboard/src/forms/refusals.js';

it('a refusal is found at the field that it names, at any depth', () => {
  const refusals = refusalsOf([
    { path: 'name', message: 'is required' },
    { path: 'gateways.1.uri', message: 'must be a URI' },
    { path: 'actions[2].text', message: 'is too long' },
  ]);
  expect(aboutItself(within(refusals, 'name'))).toBe('is required');
  expect(within(within(refusals, 'gateways'), '1')).toEqual([{ path: ['uri'], message: 'must be a URI' }]);
  expect(within(within(refusals, 'gateways'), '0')).toEqual([]);
  expect(aboutItself(within(refusals, 'gateways'))).toBeUndefined();
  expect(aboutAll(within(refusals, 'actions'))).toBe('2.text is too long');
  expect(aboutAll(within(refusals, 'other'))).toBeUndefined();
});
