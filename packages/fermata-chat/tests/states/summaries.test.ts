// When the summary of a chat is read.

import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { FollowedSummary, type ChatSummary } from '../../src/summaries.js';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test('a record that comes after the end of a run does not end the wait for its summary', async () => {
  const written = { createdAt: '2026-11-30T00:00:00Z' } as ChatSummary;
  let there = undefined as ChatSummary | undefined;
  const read = vi.fn(() => Promise.resolve(there));
  const summary = new FollowedSummary(read);
  const end = summary.subscribe(() => undefined);
  summary.refreshSoon(4);
  summary.refresh(4);
  await vi.advanceTimersByTimeAsync(1000);
  there = written;
  await vi.advanceTimersByTimeAsync(2000);
  expect(summary.get()).toBe(written);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(read).toHaveBeenCalledTimes(2);
  end();
});

test('a chat with few messages has no summary, and none is looked for', async () => {
  const read = vi.fn(() => Promise.resolve(undefined));
  const summary = new FollowedSummary(read);
  const end = summary.subscribe(() => undefined);
  summary.refreshSoon(4);
  summary.refresh(2);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(read).not.toHaveBeenCalled();
  end();
});
