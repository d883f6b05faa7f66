// Whether the page is being left. Its connections break then, and nothing is opened again in their place: in some browsers the
// page that comes next would wait for what the old one has asked for. A page that is kept and shown again goes on.

const page: Partial<typeof globalThis> = globalThis;

let isLeaving = false;
page.addEventListener?.('pagehide', () => {
  isLeaving = true;
});
page.addEventListener?.('pageshow', () => {
  isLeaving = false;
});

/** Waits while the page is being left, until it is shown again or nobody wants to go on. Gives whether somebody does. */
export function unlessLeaving(signal: AbortSignal): Promise<boolean> {
  if (!isLeaving || signal.aborted) return Promise.resolve(!signal.aborted);
  return new Promise((resolve) => {
    const go = () => {
      page.removeEventListener?.('pageshow', go);
      signal.removeEventListener('abort', go);
      resolve(!signal.aborted);
    };
    page.addEventListener?.('pageshow', go);
    signal.addEventListener('abort', go);
  });
}
