-- All that SQLite has after its eighth migration, with the same tables, columns and constraints.
--
-- Times: bigint microseconds since 1970-01-01T00:00:00Z. Structures: JSON as text, because the program reads it back byte by byte and
-- jsonb keeps neither the order of keys nor U+0000. Ids compare byte by byte (collate "C"), so that lists have the same order
-- everywhere. U+0000, which PostgreSQL does not take, stands in texts of people and models as U+001A and 0, and U+001A as U+001A and 1.

-- fence: how often the chat has been written to.
create table chats (
    id text collate "C" not null primary key,
    fence bigint not null check (fence > 0),
    owner text collate "C" not null,
    profile bigint not null check (profile > 0),
    created_at bigint not null,
    updated_at bigint not null
);

create index chats_by_owner on chats (owner, updated_at desc, id desc);
create index chats_by_age on chats (updated_at, id);

-- heading: the beginning of a user message, for lists.
create table messages (
    chat_id text collate "C" not null references chats (id) on delete cascade,
    position bigint not null check (position >= 0),
    id text collate "C" not null,
    role text not null check (role in ('system', 'user', 'assistant')),
    heading text,
    body text not null,
    primary key (chat_id, id),
    unique (chat_id, position)
);

-- A run that is over keeps its row and its calls; its state goes, and its log after a short time.
-- driver: which instance drives it, also one that has ended; null for nobody.
-- waiting: whether it goes on only when somebody answers, or when its time is over.
-- has_log: whether the run is over and its log is still there.
create table runs (
    chat_id text collate "C" not null references chats (id) on delete cascade,
    id text collate "C" not null,
    message_id text collate "C" not null,
    state text,
    driver text collate "C",
    waiting boolean not null,
    expires_at bigint,
    started_at bigint not null,
    ended_at bigint,
    outcome text,
    has_log boolean not null default false,
    primary key (chat_id, id),
    check ((outcome is null) = (ended_at is null)),
    check ((outcome is null) = (state is not null)),
    check (outcome is null or expires_at is null),
    check (outcome is null or driver is null)
);

create unique index runs_open on runs (chat_id) where outcome is null;
create index runs_due on runs (expires_at, chat_id) where outcome is null and expires_at is not null;
create index runs_at_work on runs (started_at, chat_id) where outcome is null and not waiting;
create index runs_with_log on runs (ended_at, chat_id, id) where has_log;
create index runs_by_driver on runs (driver) where driver is not null;

-- One row for each time the log grew. chunks: JSON texts as RFC 7464 puts them in a row, each between a record separator and a line end.
create table run_chunks (
    chat_id text collate "C" not null,
    run_id text collate "C" not null,
    first bigint not null check (first > 0),
    next bigint not null check (next > first),
    chunks text not null,
    primary key (chat_id, run_id, first),
    foreign key (chat_id, run_id) references runs (chat_id, id) on delete cascade
);

-- created_at, started_at, ended_at: when the model made it, when it first ran, when it got its outcome; null where it did not happen, or
-- is not known.
-- waited_for_approval, waited_for_turn (for the gate or a lock), ran_for (or was parked for the browser): microseconds, of what is over.
-- states: JSON, a list of {state, at} in order; at as in RFC 3339, exactly.
-- run_by: null where there is no tool of that name.
-- decision, ruled_by, ruling_reason: what the policy said. ruled_by: default, rule <place among the rules>, auto, chain, always.
-- approved, for_always, decided_by, decided_reason: what a person said.
-- input, edited_input: JSON. outcome: JSON, the output, the text of the error, or why it was cancelled.
-- answered: whether the outcome is what the browser answered, word for word; the answer is not kept again.
-- more: JSON, what has no column.
create table tool_calls (
    chat_id text collate "C" not null,
    run_id text collate "C" not null,
    position bigint not null check (position >= 0),
    id text collate "C" not null,
    step bigint not null,
    tool text collate "C" not null,
    run_by text check (run_by in ('server', 'mcp', 'browser')),
    state text not null check (
        state in ('validating', 'awaiting_approval', 'scheduled', 'executing', 'success', 'error', 'cancelled')
    ),
    states text not null,
    created_at bigint,
    started_at bigint,
    ended_at bigint,
    expires_at bigint,
    waited_for_approval bigint,
    waited_for_turn bigint,
    ran_for bigint,
    decision text check (decision in ('allow', 'ask', 'deny')),
    ruled_by text,
    ruling_reason text,
    approval_id text collate "C",
    approval_required boolean,
    approved boolean,
    for_always boolean,
    decided_by text collate "C",
    decided_reason text,
    input text not null,
    edited_input text,
    outcome text,
    error_type text,
    answered boolean not null,
    more text not null,
    primary key (chat_id, id),
    unique (chat_id, run_id, position),
    foreign key (chat_id, run_id) references runs (chat_id, id) on delete cascade,
    check ((decision is null) = (ruled_by is null)),
    check ((approval_id is null) = (approval_required is null)),
    check ((approved is null) = (decided_by is null)),
    check ((approved is null) = (for_always is null)),
    check ((state in ('success', 'error', 'cancelled')) = (outcome is not null))
);

create unique index tool_calls_by_approval on tool_calls (approval_id, chat_id) where approval_id is not null;
create index tool_calls_by_tool on tool_calls (tool, created_at);

-- What people decided, and about which input: rows are added, never changed, and go only with their chat.
create table confirmations (
    chat_id text collate "C" not null,
    position bigint not null check (position >= 0),
    run_id text collate "C" not null,
    call_id text collate "C" not null,
    tool text collate "C" not null,
    approval_id text collate "C",
    input text not null,
    answer text not null check (answer in ('yes', 'yes_always', 'no')),
    reason text,
    decided_by text collate "C" not null,
    decided_at bigint not null,
    primary key (chat_id, position),
    foreign key (chat_id, run_id) references runs (chat_id, id) on delete cascade
);

create index confirmations_of_run on confirmations (chat_id, run_id);

create function confirmations_are_append_only() returns trigger language plpgsql as $$
begin
    -- A cascade deletes a chat's row before the rows that refer to it: while the chat is there, somebody else deletes.
    if tg_op = 'DELETE' then
        perform 1 from chats where chats.id = old.chat_id;
        if not found then
            return old;
        end if;
    end if;
    raise exception 'confirmations are append-only' using errcode = 'integrity_constraint_violation';
end
$$;

create trigger confirmations_are_not_changed before update on confirmations
    for each row execute function confirmations_are_append_only();

create trigger confirmations_go_only_with_their_chat before delete on confirmations
    for each row execute function confirmations_are_append_only();

create trigger confirmations_are_not_emptied before truncate on confirmations
    for each statement execute function confirmations_are_append_only();

-- Notes, which belong to an owner and to no chat.
-- folded: title and body without case, as the program folds it, without U+0000.
create table notes (
    owner text collate "C" not null,
    id text collate "C" not null,
    title text not null,
    body text not null,
    folded text not null,
    created_at bigint not null,
    primary key (owner, id)
);

create index notes_by_owner on notes (owner, created_at desc, id desc);

-- Who is alive. An instance that has ended has no row. Times are the database's own.
-- session: the second key of the advisory lock that the instance's own session holds; a lock that nobody holds tells that it has ended.
create table instances (
    id text collate "C" not null primary key,
    session bigint not null,
    joined_at bigint not null,
    beat_at bigint not null
);

-- resource: JSON, its name and whose it is. It may be longer than an index takes, so what is unique is its hash.
create table resource_locks (
    resource text not null,
    instance text collate "C" not null references instances (id) on delete cascade
);

create unique index resource_locks_by_resource on resource_locks (md5(resource));
create index resource_locks_by_instance on resource_locks (instance);

-- The newest migration that a program has to know to use this database. Only migrations change it.
create table schema_floor (
    one bigint not null primary key check (one = 1),
    migration bigint not null
);

insert into schema_floor (one, migration) values (1, 1);
