/** Messages to begin with. The demo model knows each of them, and so does a real one. */
const SUGGESTIONS = [
  { text: 'Write a note: buy milk', shows: 'waits for your approval' },
  { text: 'Use get_time_zone', shows: 'runs in your browser' },
  { text: 'Book a table', shows: 'asks you a question' },
  { text: 'Search my notes for tea and write a list', shows: 'makes a plan that you review' },
];

export function Greeting({ onChoose }: { onChoose: (text: string) => void }) {
  return (
    <section aria-labelledby="greeting" className="pt-[12dvh]">
      <h2 id="greeting" className="text-2xl font-semibold">
        What can I do for you?
      </h2>
      <ul className="mt-6 grid gap-2 sm:grid-cols-2">
        {SUGGESTIONS.map(({ text, shows }) => (
          <li key={text}>
            <button
              type="button"
              onClick={() => onChoose(text)}
              className="h-full w-full rounded-xl border border-field bg-raised px-4 py-3 text-start hover:border-accent"
            >
              <span className="block font-medium">{text}</span>
              <span className="block text-sm text-muted">{shows}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
