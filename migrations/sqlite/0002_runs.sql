-- Runs, their logs and their calls.
-- A run that is over keeps its row and its calls, because answers to settled calls must be answerable for ever; its
-- state and its log go.

create table runs (
    chat_id text not null references chats (id) on delete cascade,
    id text not null,
    message_id text not null,
    state text,
    expires_at integer,
    started_at integer not null,
    ended_at integer,
    outcome text,
    primary key (chat_id, id),
    check ((outcome is null) = (ended_at is null)),
    check ((outcome is null) = (state is not null)),
    check (outcome is null or expires_at is null)
) strict;

create unique index runs_open on runs (chat_id) where outcome is null;
create index runs_due on runs (expires_at, chat_id) where outcome is null and expires_at is not null;

-- One row for each time the log grew. chunks: JSON texts as RFC 7464 puts them in a row, each between a record
-- separator and a line end.
create table run_chunks (
    chat_id text not null,
    run_id text not null,
    first integer not null check (first > 0),
    next integer not null check (next > first),
    chunks text not null,
    primary key (chat_id, run_id, first),
    foreign key (chat_id, run_id) references runs (chat_id, id) on delete cascade
) strict;

create table calls (
    chat_id text not null,
    run_id text not null,
    position integer not null check (position >= 0),
    id text not null,
    step integer not null,
    tool text not null,
    state text not null check (
        state in ('validating', 'awaiting_approval', 'scheduled', 'executing', 'success', 'error', 'cancelled')
    ),
    approval_id text,
    expires_at integer,
    body text not null,
    primary key (chat_id, id),
    unique (chat_id, run_id, position),
    foreign key (chat_id, run_id) references runs (chat_id, id) on delete cascade
) strict;

create unique index calls_by_approval on calls (chat_id, approval_id) where approval_id is not null;
