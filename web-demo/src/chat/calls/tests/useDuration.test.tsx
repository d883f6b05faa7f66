// The stop-watch of a call, by a clock that the test moves.

import { act, renderHook } from '@testing-library/react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { useDuration } from '../useDuration';

beforeEach(() => {
  vi.useFakeTimers();
  sessionStorage.clear();
});
afterEach(() => vi.useRealTimers());

const pass = (milliseconds: number) => {
  act(() => {
    vi.advanceTimersByTime(milliseconds);
  });
};

it('goes on after a reload, and stands when the call is over', () => {
  const before = renderHook(() => useDuration('call_1', true, false, undefined));
  pass(90_000);
  expect(before.result.current).toBe(90_000);
  before.unmount();
  pass(30_000);
  const after = renderHook(({ isRunning }) => useDuration('call_1', isRunning, !isRunning, undefined), {
    initialProps: { isRunning: true },
  });
  expect(after.result.current).toBe(120_000);
  after.rerender({ isRunning: false });
  pass(60_000);
  expect(after.result.current).toBe(120_000);
  after.unmount();
});

it('shows nothing while the call waits, also if it was at work before', () => {
  const watch = renderHook(({ isRunning }) => useDuration('call_2', isRunning, false, undefined), {
    initialProps: { isRunning: true },
  });
  pass(2000);
  watch.rerender({ isRunning: false });
  expect(watch.result.current).toBeUndefined();
  watch.unmount();
});

it('shows what the server says as soon as it says so', () => {
  const watch = renderHook(() => useDuration('call_3', true, false, 42));
  expect(watch.result.current).toBe(42);
  watch.unmount();
});
