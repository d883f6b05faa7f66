// @ts-check
// `npm run soak` has this after the crashes: a chat of ten thousand turns, with a model that can take 8,000
// tokens. TURNS says how many.

import { longChat } from './long-chat.mjs';

const turns = Number(process.env.TURNS ?? 10_000);
for (const isKnown of [true, false]) {
  const began = Date.now();
  const progress = (/** @type {number} */ done) => {
    if (done % 1000 === 0) console.log(`${done} turns after ${Math.round((Date.now() - began) / 1000)} s`);
  };
  const { refusals, summaries, longest, forgotten, messages, ...counts } = await longChat({
    turns,
    window: 8000,
    isKnown,
    progress,
  });
  console.log(
    `the window is ${isKnown ? 'known' : 'unknown'}: ${messages} messages, ${summaries} summaries, ` +
      `${refusals} refusals, at most ${longest} tokens, ${forgotten.length} facts forgotten`,
  );
  const share = (/** @type {number} */ part, /** @type {number} */ all) =>
    `${((100 * part) / all).toFixed(1)} %`;
  console.log(
    `repeated of what was sent: ${share(counts.repeated, counts.sent)}, and between compactions ` +
      share(counts.repeatedOn, counts.sentOn),
  );
  if (forgotten.length > 0) process.exit(1);
}
