import { fermata } from 'fermata-chat';
import { useEffect, useState } from 'react';

interface ListedChat {
  id: string;
  title: string | null;
  updatedAt: string;
  /** How many calls and questions wait for a person. */
  pending?: number;
}

/** The newest chats of the server. */
export function ChatList({ id, chatPath }: { id: string; chatPath: string }) {
  const [chats, setChats] = useState<ListedChat[]>();
  const [error, setError] = useState<Error>();
  useEffect(() => {
    fermata()
      .request<{ chats: ListedChat[] }>('/api/chats?limit=50')
      .then(({ chats }) => setChats(chats), setError);
  }, []);
  if (error)
    return (
      <p role="alert" className="p-2 text-sm text-bad">
        {error.message}
      </p>
    );
  if (chats === undefined) return <p className="p-2 text-sm text-muted">Loading…</p>;
  if (chats.length === 0) return <p className="p-2 text-sm text-muted">There are no chats yet.</p>;
  return (
    <ul>
      {chats.map((chat) => (
        <li key={chat.id}>
          <a
            href={chatPath + encodeURIComponent(chat.id)}
            aria-current={chat.id === id ? 'page' : undefined}
            className="flex items-center gap-2 rounded-lg px-3 py-2 text-sm hover:bg-sunken aria-[current=page]:bg-accent-soft"
          >
            <span dir="auto" className="min-w-0 flex-1 truncate">
              {chat.title ?? 'New chat'}
            </span>
            {(chat.pending ?? 0) > 0 && (
              <span className="rounded-full bg-wait-soft px-2 text-xs text-wait">waits for you</span>
            )}
            <time dateTime={chat.updatedAt} className="text-xs text-muted">
              {new Date(chat.updatedAt).toLocaleDateString()}
            </time>
          </a>
        </li>
      ))}
    </ul>
  );
}
