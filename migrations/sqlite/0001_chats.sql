-- Chats and their messages.
-- Times, here and in every table: integer microseconds since 1970-01-01T00:00:00Z.

create table chats (
    id text not null primary key,
    owner text not null,
    profile integer not null check (profile > 0),
    created_at integer not null,
    updated_at integer not null
) strict;

create index chats_by_owner on chats (owner, updated_at desc, id desc);

-- heading: the beginning of a user message, for lists; it stands before body so that a list need not read bodies,
-- which may hold whole files.
create table messages (
    chat_id text not null references chats (id) on delete cascade,
    position integer not null check (position >= 0),
    id text not null,
    role text not null check (role in ('system', 'user', 'assistant')),
    heading text,
    body text not null,
    primary key (chat_id, id),
    unique (chat_id, position)
) strict;
