-- Summaries of the first messages of a chat, as JSON values of the engine. The one of the most messages counts; the others are for the
-- case that messages are removed.
create table summaries (
    chat_id text not null references chats (id) on delete cascade,
    messages integer not null,
    up_to text not null,
    content text not null,
    reason text not null,
    model text not null,
    created_at integer not null,
    primary key (chat_id, messages)
) strict;

-- Chats of which a summary is to be written, and from when on an instance may begin with it.
create table due_summaries (
    chat_id text not null primary key references chats (id) on delete cascade,
    due_at integer not null
) strict;

create index due_summaries_by_time on due_summaries (due_at);

-- The data parts that the last post asked for, as a JSON list; null if there were none.
alter table chats add column show text;
