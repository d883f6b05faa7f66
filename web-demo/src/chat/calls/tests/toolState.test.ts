// How far a call is, as a table; and the gate's counting.

import i18next from 'i18next';
import { describe, expect, it } from 'vitest';
import type { CallStatus, NoOutput } from 'fermata-chat';
import { pageRuns } from '../../../tools';
import type { AnyToolPart } from '../../record/toolState';
import { callState, isSettled, runBy } from '../../record/toolState';
import { call, setUpPage, TOOLS } from '../../tests/page';
import { countGate } from '../Gate';
import { stateWords } from '../CallHeader';

setUpPage();

const words = (part: AnyToolPart, status?: CallStatus, noOutput?: NoOutput) =>
  stateWords(
    callState(part, { status, noOutput }, { tools: TOOLS, pageRuns }),
    i18next.getFixedT('en', 'cards'),
  );

const stateOf = (part: AnyToolPart, status?: CallStatus) =>
  callState(part, { status }, { tools: TOOLS, pageRuns });

/** No call has a status. */
const unknown = () => undefined;

const asked = call('other', 'write_note', 'approval-requested');
const approved = { approval: { id: 'a', approved: true } };
const refused = { approval: { id: 'a', approved: false } };

describe('a call alone', () => {
  it.each([
    ['Preparing', call('a', 'write_note', 'input-streaming')],
    ['Waiting for you', call('a', 'write_note', 'approval-requested')],
    ['Running', call('a', 'write_note', 'input-available')],
    ['Running', call('a', 'write_note', 'approval-responded', approved)],
    ['Denied', call('a', 'write_note', 'approval-responded', refused)],
    ['Running', call('a', 'files__read', 'output-available', { preliminary: true, output: { progress: 1 } })],
    ['Done', call('a', 'write_note', 'output-available', { output: 1 })],
    ['Failed', call('a', 'write_note', 'output-error', { errorText: 'x' })],
    ['Denied', call('a', 'write_note', 'output-denied', refused)],
    ['Running', call('a', 'get_location', 'input-available')],
    ['Waiting for you', call('a', 'ask_question', 'input-available')],
    ['Running', call('a', 'open_door', 'input-available')],
  ])('says "%s"', (expected, part) => {
    expect(words(part)).toBe(expected);
  });
});

describe('a call without an output', () => {
  const cancelled = (code: string): NoOutput => ({ state: 'cancelled', code });

  it.each([
    ['Denied', cancelled('denied')],
    ['Cancelled', cancelled('expired')],
    ['Cancelled', cancelled('by_person')],
    ['Cancelled', cancelled('stopped')],
    ['Cancelled', cancelled('superseded')],
    ['Cancelled', cancelled('run_ended')],
    ['Cancelled', cancelled('not_first')],
    ['Cancelled', cancelled('not_chosen')],
    ['Cancelled', cancelled('of a later version')],
    ['Failed', { state: 'error', code: 'timeout' } as const],
    ['Failed', { state: 'error', code: 'denied' } as const],
    ['Failed', { state: 'error', code: 'cancelled' } as const],
  ])('is "%s" because of %j, whatever its text says', (expected, noOutput) => {
    for (const errorText of ['x', 'Cancelled: by a tool.', 'Expired: the voucher.', 'Denied: no stock.']) {
      const part = call('a', 'write_note', 'output-error', { errorText });
      expect(words(part, undefined, noOutput)).toBe(expected);
      expect(words(part)).toBe('Failed');
    }
  });
});

describe('a call of which the server says what it waits for', () => {
  const gate: CallStatus = { state: 'scheduled', waitsFor: 'gate' };

  it('waits for the other calls of its step, wherever it would run', () => {
    const waits = 'Waiting for the other calls of this step';
    expect(words(call('a', 'search_notes', 'input-available'), gate)).toBe(waits);
    expect(words(call('a', 'get_location', 'input-streaming'), gate)).toBe(waits);
    expect(words(call('a', 'write_note', 'approval-responded', approved), gate)).toBe(waits);
  });

  it('waits its turn for a resource', () => {
    const queued: CallStatus = { state: 'scheduled', waitsFor: 'resource', resource: 'notes' };
    expect(words(call('a', 'search_notes', 'input-available'), queued)).toBe('Waiting for notes');
  });

  it('waits for a page that has its tool', () => {
    const parked: CallStatus = { state: 'executing', waitsFor: 'page' };
    const elsewhere = 'Waiting for a page that has this tool';
    expect(words(call('a', 'open_door', 'input-available'), parked)).toBe(elsewhere);
    expect(words(call('a', 'constructor', 'input-available'), parked)).toBe(elsewhere);
    expect(words(call('a', 'get_location', 'input-available'), parked)).toBe('Running');
    expect(words(call('a', 'ask_question', 'input-available'), parked)).toBe('Waiting for you');
  });

  it('runs once it waits for nothing', () => {
    expect(words(call('a', 'search_notes', 'input-available'), { state: 'executing' })).toBe('Running');
  });

  it('has its outcome from its part', () => {
    expect(words(call('a', 'search_notes', 'output-available', { output: 1 }), gate)).toBe('Done');
    expect(words(call('a', 'write_note', 'approval-responded', refused), gate)).toBe('Denied');
  });
});

it('knows who runs a call, also before the list of tools is there', () => {
  const by = (name: string, tools?: typeof TOOLS, more: object = {}, status?: CallStatus) =>
    runBy(call('a', name, 'input-available', more), status, { tools, pageRuns });
  expect(by('write_note', TOOLS)).toBe('server');
  expect(by('files__read', TOOLS)).toBe('mcp');
  expect(by('ask_question', TOOLS)).toBe('page');
  // The list is that of one assistant, so a tool that is not listed may be the server's all the same.
  expect(by('open_door', TOOLS)).toBe('server');
  expect(by('open_door', TOOLS, {}, { state: 'executing', waitsFor: 'page' })).toBe('elsewhere');
  expect(by('write_note')).toBe('server');
  expect(by('anything', undefined, { type: 'dynamic-tool', toolName: 'anything' })).toBe('mcp');
});

it('takes a preliminary output for no end', () => {
  expect(isSettled(call('a', 'x', 'output-available', { output: 1, preliminary: true }))).toBe(false);
  expect(isSettled(call('a', 'x', 'output-available', { output: 1 }))).toBe(true);
});

describe('a call that other people decide about', () => {
  const decision = { by: ['group:finance'], quorum: 2, notRequester: true, approvedBy: [], mayDecide: false };
  const waits = { state: 'awaiting_approval', waitsFor: 'other_people', decision } as const;
  const descriptor = (mayDecide: boolean) => ({
    approval: { id: 'x', descriptor: { tool: 'refund', mayDecide } },
  });

  it('waits for other people', () => {
    expect(stateOf(call('a', 'refund', 'approval-requested'), waits)).toEqual({ name: 'waits-for-people' });
  });

  it('is recognized by its request until it has a status', () => {
    const others = call('a', 'refund', 'approval-requested', descriptor(false));
    expect(stateOf(others)).toEqual({ name: 'waits-for-people' });
    expect(stateOf(call('a', 'refund', 'approval-requested', descriptor(true)))).toEqual({
      name: 'waits-for-you',
    });
  });

  it('waits for the person as soon as they may decide', () => {
    const others = call('a', 'refund', 'approval-requested', descriptor(false));
    const mine = { ...waits, waitsFor: 'person', decision: { ...decision, mayDecide: true } } as const;
    expect(stateOf(others, mine)).toEqual({ name: 'waits-for-you' });
  });

  it('waits for more people after the person has approved it', () => {
    const responded = call('a', 'refund', 'approval-responded', approved);
    expect(stateOf(responded, waits)).toEqual({ name: 'waits-for-people' });
    expect(stateOf(responded, { state: 'scheduled' })).toEqual({ name: 'running' });
  });

  it('counts as undecided at the gate, without a question to the person', () => {
    const step = [call('a', 'refund', 'approval-requested'), call('b', 'refund', 'approval-requested')];
    const status = (id: string) => (id === 'a' ? waits : undefined);
    expect(countGate(step, undefined, status)).toMatchObject({
      decided: 0,
      waiting: [{ id: 'approval of b' }],
    });
    expect(countGate(step, undefined, () => waits)).toMatchObject({ decided: 0, waiting: [] });
  });
});

describe('the gate', () => {
  it('counts the decided of all calls of the step', () => {
    const step = [
      asked,
      call('b', 'write_note', 'approval-responded', approved),
      call('c', 'search_notes', 'input-available'),
    ];
    expect(countGate(step, { stage: 'tool_call', requiresConfirm: true, gateClosed: true }, unknown)).toEqual(
      {
        decided: 2,
        total: 3,
        waiting: [{ id: 'approval of other', input: {} }],
        isClosed: true,
      },
    );
  });

  it('is none where nothing waits, or nothing else is there', () => {
    expect(countGate([asked], undefined, unknown)).toBeUndefined();
    const step = [call('a', 'x', 'input-available'), call('b', 'x', 'output-available', { output: 1 })];
    expect(countGate(step, undefined, unknown)).toBeUndefined();
  });

  it('is closed or not as the server says, whatever the other calls are at', () => {
    const done = call('b', 'x', 'output-available', { output: 1 });
    const run = { stage: 'tool_call', requiresConfirm: true } as const;
    for (const step of [
      [asked, done],
      [asked, call('b', 'x', 'approval-requested')],
    ]) {
      expect(countGate(step, { ...run, gateClosed: true }, unknown)?.isClosed).toBe(true);
      expect(countGate(step, run, unknown)?.isClosed).toBe(false);
      expect(countGate(step, undefined, unknown)?.isClosed).toBeUndefined();
    }
  });
});
