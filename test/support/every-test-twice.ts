/** With TEST_TWICE=1 the first try of each test that may be tried again fails at its end, to show that what it leaves does not spoil the next. */
import { afterEach } from 'vitest';

afterEach(({ task }) => {
  const tries = typeof task.retry === 'number' ? task.retry : (task.retry?.count ?? 0);
  if (tries > 0 && (task.result?.retryCount ?? 0) === 0) throw new Error('The first try fails by TEST_TWICE.');
});
