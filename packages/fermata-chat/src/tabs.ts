// The other tabs of this browser. They tell each other that a chat has changed, and each loads it from the server.

const CHANNEL = 'fermata';

export class Tabs {
  /** The chat, among those of all servers. */
  readonly #topic: string;
  #channel: BroadcastChannel | undefined;

  constructor(api: string, chatId: string) {
    this.#topic = `${api} ${chatId}`;
  }

  /** Calls `onNews` when another tab has changed the chat, and `onVisible` when this one is looked at again. Returns what ends that. */
  watch(onNews: () => void, onVisible: () => void): () => void {
    const page: Partial<typeof globalThis> = globalThis;
    const onVisibilityChange = () => {
      if (document.visibilityState === 'visible') onVisible();
    };
    const channel = page.BroadcastChannel && new BroadcastChannel(CHANNEL);
    channel?.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
      if (data === this.#topic) onNews();
    });
    page.document?.addEventListener('visibilitychange', onVisibilityChange);
    this.#channel = channel;
    return () => {
      page.document?.removeEventListener('visibilitychange', onVisibilityChange);
      channel?.close();
      this.#channel = undefined;
    };
  }

  tell() {
    this.#channel?.postMessage(this.#topic);
  }
}
