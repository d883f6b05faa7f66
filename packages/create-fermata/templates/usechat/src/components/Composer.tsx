import { ArrowUp, Square } from 'lucide-react';
import type { KeyboardEvent } from 'react';

interface ComposerProps {
  onSend: (text: string) => void;
  /** Ends the answer. It is undefined if none is being written. */
  onStop: (() => void) | undefined;
}

export function Composer({ onSend, onStop }: ComposerProps) {
  // React empties the field after the action.
  const send = (form: FormData) => {
    const text = String(form.get('message')).trim();
    if (text !== '') onSend(text);
  };
  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    // Enter may also end a word of an input method.
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    event.currentTarget.form?.requestSubmit();
  };
  return (
    <form className="column pb-4" action={send}>
      <div className="flex items-end gap-2 rounded-2xl border border-field bg-raised p-2 focus-within:border-accent">
        <textarea
          name="message"
          aria-label="Message"
          placeholder="Write a message"
          dir="auto"
          rows={1}
          autoComplete="off"
          onKeyDown={onKeyDown}
          className="field-sizing-content max-h-[40dvh] min-h-11 flex-1 resize-none bg-transparent px-2 py-2.5 outline-none placeholder:text-muted"
        />
        {onStop && (
          <button
            type="button"
            aria-label="Stop"
            onClick={onStop}
            className="grid size-11 shrink-0 place-items-center rounded-xl border border-field hover:border-accent"
          >
            <Square className="size-4 fill-current" aria-hidden />
          </button>
        )}
        <button
          type="submit"
          aria-label="Send"
          className="grid size-11 shrink-0 place-items-center rounded-xl bg-accent text-accent-ink"
        >
          <ArrowUp className="size-5" aria-hidden />
        </button>
      </div>
    </form>
  );
}
