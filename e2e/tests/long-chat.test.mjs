// @ts-check
// A chat that is many times longer than its model can take goes on, and forgets nothing that counts.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { longChat } from '../long/long-chat.mjs';

for (const isKnown of [true, false]) {
  test(`a long chat never fails and forgets no fact, ${isKnown ? 'with a known window' : 'by refusals'}`, async () => {
    const { refusals, summaries, forgotten, messages, log } = await longChat({
      turns: 90,
      window: 4000,
      isKnown,
    });
    assert.deepEqual(forgotten, []);
    assert.equal(messages, 180);
    assert.ok(summaries > 0, log);
    if (!isKnown) assert.ok(refusals > 0, 'the window is too large for this test');
  });
}
