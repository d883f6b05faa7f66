-- Memories, which belong to an owner and are known in all of the owner's chats.
-- slot: the name of the one thing that the memory says, which no other memory of the owner says.
-- chat_id, message_id: where it comes from. The message's id counts only as long as there is a chat.
-- embedded_by: the model that made its vector; null if it has none.
create table memories (
    owner text not null,
    id text not null,
    kind text not null check (kind in ('preference', 'fact', 'entity', 'instruction')),
    text text not null,
    slot text,
    pinned integer not null,
    chat_id text references chats (id) on delete set null,
    message_id text,
    created_at integer not null,
    recalled_at integer,
    version integer not null check (version >= 0),
    embedded_by text,
    primary key (owner, id),
    unique (owner, slot)
) strict;

create index memories_by_time on memories (owner, created_at desc, id desc);
create index memories_by_chat on memories (chat_id) where chat_id is not null;
create index memories_by_embedding on memories (embedded_by);

-- The changes of an owner's memories that can be undone, in their order.
-- before, after: JSON, the memory before and after; null if it was not there.
create table memory_events (
    owner text not null,
    position integer not null check (position > 0),
    memory_id text not null,
    at integer not null,
    before text,
    after text,
    primary key (owner, position),
    check (before is not null or after is not null)
) strict;

create index memory_events_by_memory on memory_events (owner, memory_id, position);
create index memory_events_by_time on memory_events (at);

-- vector: the numbers, each in four bytes, the lowest byte first. dims: how many there are.
create table memory_vectors (
    owner text not null,
    memory_id text not null,
    dims integer not null check (dims > 0),
    vector blob not null,
    primary key (owner, memory_id),
    foreign key (owner, memory_id) references memories (owner, id) on delete cascade
) strict;
