-- The tables of version 0.1.0. SQLite has the same tables and columns; migrations/README.md has the rules for changes.
--
-- Times are integers: microseconds since 1970-01-01T00:00:00Z. Durations are microseconds. Structures are JSON as text, because the
-- program reads them back byte by byte, and jsonb keeps neither the order of keys nor U+0000.
-- Ids compare byte by byte (collate "C"), so that lists have the same order everywhere.
-- PostgreSQL takes no U+0000. In texts of people and models it is written as U+001A and 0, and U+001A as U+001A and 1.

-- === chats and their messages ===

-- version: the fencing token. A commit names the version that it knows, and sets the next one.
-- profile: the version of the AI SDK that the last post named, as 7 or 7.0.173.
-- bytes: the size of the chat's messages as JSON. Triggers keep it.
-- assistant, model: those that a post named last; null if none has.
-- title, archived, pinned: the entry in lists, as the owner has set it. title is null until the chat is given one.
-- show: the data chunks that the last post asked for, as a JSON list.
-- stage, requires_confirm, last_tool, last_result: the status of the last run, for people who look.
--   stage: idle, plan, tool_call, tool_result, decide or respond.
-- context: the part of the chat that its model is sent, as a JSON value of the engine; null if it is sent everything.
create table chats (
    id text collate "C" not null primary key,
    owner text collate "C" not null,
    version bigint not null check (version > 0),
    profile text not null,
    created_at bigint not null,
    updated_at bigint not null,
    bytes bigint not null default 0,
    assistant text,
    model text,
    title text,
    archived boolean not null default false,
    pinned boolean not null default false,
    show text,
    stage text,
    requires_confirm boolean,
    last_tool text collate "C",
    last_result text,
    context text
)
-- A chat's row is updated several times in each turn. If the new row fits on the page of the old one and no index has what has changed,
-- no index is written (a heap-only tuple), and the old row goes without a vacuum. So pages keep room. A run's row is updated once or
-- twice in all, and would not be worth the room.
with (fillfactor = 80);

create index chats_by_owner on chats (owner, archived, pinned desc, updated_at desc, id desc);
create index chats_by_age on chats (updated_at, id);

-- Large values of a message are kept once: its files in `files`, the inputs and outputs of its calls in `calls`.
-- title: the beginning of a user's message, for lists of chats.
-- elsewhere: JSON, a list of {at, file | input | editedInput | output}: the JSON pointer to a value that was cut out of body, and the
--   hash of a file or the id of a call. Null if the body is whole.
-- bytes_elsewhere: the number of bytes that the body lacks of the whole message.
create table messages (
    chat_id text collate "C" not null references chats (id) on delete cascade,
    position bigint not null,
    id text collate "C" not null,
    role text not null check (role in ('system', 'user', 'assistant')),
    title text,
    bytes_elsewhere bigint not null check (bytes_elsewhere >= 0),
    elsewhere text,
    body text not null,
    primary key (chat_id, id),
    unique (chat_id, position)
);

-- The size of a chat is that of its whole messages. It is counted once for each statement, because a statement may drop many messages.
create function messages_are_counted() returns trigger language plpgsql as $$
begin
    if tg_op <> 'INSERT' then
        update chats set bytes = chats.bytes - gone.size
        from (
            select chat_id, sum(octet_length(body) + bytes_elsewhere) as size from old_messages group by chat_id
        ) as gone
        where chats.id = gone.chat_id;
    end if;
    if tg_op <> 'DELETE' then
        update chats set bytes = chats.bytes + come.size
        from (
            select chat_id, sum(octet_length(body) + bytes_elsewhere) as size from new_messages group by chat_id
        ) as come
        where chats.id = come.chat_id;
    end if;
    return null;
end
$$;

create trigger messages_are_counted_when_added after insert on messages
    referencing new table as new_messages for each statement execute function messages_are_counted();
create trigger messages_are_counted_when_changed after update on messages
    referencing old table as old_messages new table as new_messages for each statement execute function messages_are_counted();
create trigger messages_are_counted_when_dropped after delete on messages
    referencing old table as old_messages for each statement execute function messages_are_counted();

-- url: a data URL. hash: its SHA-256 in hexadecimal.
create table files (
    chat_id text collate "C" not null references chats (id) on delete cascade,
    hash text collate "C" not null,
    url text not null,
    primary key (chat_id, hash)
);

-- Base64 cannot be compressed, and trying takes longer than writing it.
alter table files alter column url set storage external;

-- Summaries of the first messages of a chat, as JSON values of the engine. The one that covers most messages counts. The others count
-- again if messages are removed.
-- messages, up_to: the number of messages that it covers, and the last of them.
create table summaries (
    chat_id text collate "C" not null references chats (id) on delete cascade,
    messages bigint not null,
    up_to text collate "C" not null,
    content text not null,
    reason text not null,
    model text not null,
    created_at bigint not null,
    primary key (chat_id, messages)
);

-- Chats that need a summary, and the earliest time when an instance may write it.
create table due_summaries (
    chat_id text collate "C" not null primary key references chats (id) on delete cascade,
    due_at bigint not null
);

create index due_summaries_by_time on due_summaries (due_at);

-- The chats that their owners have deleted in the last 30 days. hash: SHA-256 in hexadecimal of the owner and the id.
create table deleted_chats (
    hash text collate "C" not null primary key,
    deleted_at bigint not null
);

create index deleted_chats_by_time on deleted_chats (deleted_at);

-- === runs and their logs ===

-- A run that is over keeps its row and its calls, because an answer to a settled call can be repeated as long as the chat is kept. Its
-- state goes at once, and its log after a short time.
-- owner: the owner of the chat, so that the open runs of a user are counted without reading chats.
-- instance: the instance that owns the run, even if that has ended; null if none does.
-- waiting: the run continues only when somebody answers, or when its time is over.
-- detached: the readers of the run were sent away while it waits.
-- questions: the number of questions of its running calls that wait for the user. Calls that wait are in calls.
-- attempts: the number of times that the run was resumed since its last progress. It is counted before the work begins, so a run that
--   ends each process which resumes it is given up.
-- has_log: the run is over and its log is still there.
create table runs (
    chat_id text collate "C" not null references chats (id) on delete cascade,
    id text collate "C" not null,
    owner text collate "C" not null,
    message_id text collate "C" not null,
    instance text collate "C",
    waiting boolean not null,
    detached boolean not null,
    questions bigint not null check (questions >= 0),
    attempts bigint not null check (attempts >= 0),
    expires_at bigint,
    started_at bigint not null,
    ended_at bigint,
    outcome text,
    has_log boolean not null default false,
    state text,
    primary key (chat_id, id),
    check ((outcome is null) = (ended_at is null)),
    check ((outcome is null) = (state is not null)),
    check (outcome is null or expires_at is null),
    check (outcome is null or instance is null)
);

create unique index runs_open on runs (chat_id) where outcome is null;
create index runs_due on runs (expires_at, chat_id) where outcome is null and expires_at is not null;
create index runs_at_work_by_instance on runs (instance, started_at, chat_id) where outcome is null and not waiting;
create index runs_by_instance on runs (instance) where instance is not null;
create index runs_open_by_owner on runs (owner, instance) where outcome is null;
create index runs_with_log on runs (ended_at, chat_id, id) where has_log;

-- The request that began a run, as JSON. It may be large and never changes, so a save of the run's state does not write it again.
create table run_settings (
    chat_id text collate "C" not null,
    run_id text collate "C" not null,
    settings text not null,
    primary key (chat_id, run_id),
    foreign key (chat_id, run_id) references runs (chat_id, id) on delete cascade
);

-- One row for each time that the log grew.
-- first, next: the positions of the first chunk of the row and after the last one.
-- chunks: JSON texts as a sequence (RFC 7464), each between a record separator and a line end.
create table run_chunks (
    chat_id text collate "C" not null,
    run_id text collate "C" not null,
    first bigint not null check (first > 0),
    next bigint not null check (next > first),
    chunks text not null,
    primary key (chat_id, run_id, first),
    foreign key (chat_id, run_id) references runs (chat_id, id) on delete cascade
);

-- The plan of a run, for people who look and for summaries. state: proposed, accepted, denied or done.
create table plans (
    chat_id text collate "C" not null references chats (id) on delete cascade,
    run_id text collate "C" not null,
    goal text not null,
    state text not null,
    created_at bigint not null,
    changed_at bigint not null,
    primary key (chat_id, run_id)
);

-- depends_on: the ids of other steps, as a JSON list. state: todo, doing, done, failed or skipped.
create table plan_steps (
    chat_id text collate "C" not null,
    run_id text collate "C" not null,
    position bigint not null,
    id text collate "C" not null,
    title text not null,
    tool text collate "C",
    depends_on text not null,
    state text not null,
    note text,
    call_id text collate "C",
    primary key (chat_id, run_id, position),
    foreign key (chat_id, run_id) references plans (chat_id, run_id) on delete cascade
);

-- === calls, and what people and rules decide about them ===

-- call: the whole call, as JSON. The other columns repeat what queries look for, and have what the program computes from the states.
--   The view `tool_calls` has more of it in columns.
-- run_by: null if there is no tool of that name.
-- created_at, started_at, ended_at: the times when the model made it, it first ran, and it got its outcome.
-- waited_for_approval, waited_for_turn (for the gate or a lock), ran_for (or was parked for the browser): what is over; null for what
--   did not happen.
create table calls (
    chat_id text collate "C" not null,
    run_id text collate "C" not null,
    position bigint not null check (position >= 0),
    id text collate "C" not null,
    tool text collate "C" not null,
    run_by text check (run_by in ('server', 'mcp', 'browser')),
    state text not null check (
        state in ('validating', 'awaiting_approval', 'scheduled', 'executing', 'success', 'error', 'cancelled')
    ),
    error_type text,
    created_at bigint not null,
    started_at bigint,
    ended_at bigint,
    expires_at bigint,
    waited_for_approval bigint,
    waited_for_turn bigint,
    ran_for bigint,
    approval_id text collate "C",
    call text not null,
    primary key (chat_id, id),
    unique (chat_id, run_id, position),
    foreign key (chat_id, run_id) references runs (chat_id, id) on delete cascade
);

create unique index calls_by_approval on calls (approval_id, chat_id) where approval_id is not null;
create index calls_by_tool on calls (tool, created_at);

-- The calls with a column for each fact, for operators.
-- states: JSON, a list of {state, at} in order; at as in RFC 3339, exactly.
-- policy_decision, policy_source, policy_reason: the decision of the policy. policy_source: default, rule <its number>, auto, chain,
--   memory_writes, memory_slot, always, tool_changed, retry or tool.
-- approved, always, decided_by, decided_reason, decided_how: the decision of a person. decided_how:
--   button, words, message, api, slack, email or decider.
-- input, edited_input, outcome: JSON. outcome: the output, the text of the error, or the reason why it was cancelled.
create view tool_calls as
select chat_id, run_id, position, id, (json ->> 'step')::bigint as step, tool, run_by, state,
    (json -> 'history')::text as states,
    created_at, started_at, ended_at, expires_at, waited_for_approval, waited_for_turn, ran_for,
    json -> 'policy_decision' ->> 'decision' as policy_decision,
    coalesce('rule ' || (json -> 'policy_decision' -> 'by' ->> 'rule'), json -> 'policy_decision' ->> 'by')
        as policy_source,
    json -> 'policy_decision' ->> 'reason' as policy_reason,
    approval_id,
    (json -> 'approval_decision' ->> 'approved')::boolean as approved,
    (json -> 'approval_decision' ->> 'always')::boolean as always,
    json -> 'approval_decision' ->> 'by' as decided_by,
    json -> 'approval_decision' ->> 'reason' as decided_reason,
    json -> 'approval_decision' ->> 'how' as decided_how,
    (json -> 'input')::text as input,
    (json -> 'edited')::text as edited_input,
    case state
        when 'success' then (json -> 'output')::text
        when 'error' then (json -> 'error_text')::text
        when 'cancelled' then (json -> 'cancelled')::text
    end as outcome,
    error_type
from calls, lateral (select call::json as json) as parsed;

-- The approvals that calls needed, for the people who decide about them. Each row follows from its call. A call that is asked about again has
-- several.
-- state: waiting, approved, denied, expired or cancelled.
-- terms: the hash of the terms; null if the requester decides.
create table approvals (
    id text collate "C" not null primary key,
    chat_id text collate "C" not null,
    call_id text collate "C" not null,
    owner text collate "C" not null,
    tool text collate "C" not null,
    state text not null,
    requested_at bigint not null,
    settled_at bigint,
    changed_at bigint not null,
    terms text,
    foreign key (chat_id, call_id) references calls (chat_id, id) on delete cascade,
    check ((state = 'waiting') = (settled_at is null))
);

create index approvals_of_call on approvals (chat_id, call_id);
create index approvals_by_owner on approvals (owner, state, requested_at);
create index approvals_that_wait on approvals (requested_at, id) where state = 'waiting';
create index approvals_of_others_that_wait on approvals (requested_at, id) where state = 'waiting' and terms is not null;
create index approvals_of_others_settled on approvals (settled_at, id) where state <> 'waiting' and terms is not null;
create index approvals_by_change on approvals (changed_at, id);

-- The terms of approvals that others than the requester decide about, as JSON. hash: their SHA-256 in hexadecimal.
create table approval_terms (
    hash text not null primary key,
    terms text not null
);

-- The decisions of people, and the inputs that they are about. Rows are added, never changed, and go only with their chat.
-- terms: JSON, what the decision covers besides its call: the scope, the people, the end, and the fingerprints of the tools. Null if it
--   covers nothing else.
create table confirmations (
    chat_id text collate "C" not null,
    position bigint not null check (position >= 0),
    run_id text collate "C" not null,
    call_id text collate "C" not null,
    tool text collate "C" not null,
    approval_id text collate "C",
    approved boolean not null,
    reason text,
    decided_by text collate "C" not null,
    decided_at bigint not null,
    terms text,
    input text not null,
    primary key (chat_id, position),
    foreign key (chat_id, run_id) references runs (chat_id, id) on delete cascade
);

create index confirmations_by_person on confirmations (decided_by, approval_id) where approval_id is not null;
create index confirmations_of_run on confirmations (chat_id, run_id);

create function confirmations_are_append_only() returns trigger language plpgsql as $$
begin
    -- A cascade deletes a chat's row before the rows that refer to it. While the chat is there, somebody else deletes.
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

-- The revocations of a chat's grants. Rows are added, never changed, and go only with their chat.
-- scope: the id of the scope whose grant was revoked; null for all grants of the tool.
-- confirmations: the number of confirmations that the chat had then. Only grants of those are revoked.
create table grant_ends (
    chat_id text collate "C" not null references chats (id) on delete cascade,
    position bigint not null check (position >= 0),
    tool text collate "C" not null,
    scope text,
    confirmations bigint not null check (confirmations >= 0),
    ended_by text collate "C" not null,
    ended_at bigint not null,
    primary key (chat_id, position)
);

create function grant_ends_are_append_only() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' then
        perform 1 from chats where chats.id = old.chat_id;
        if not found then
            return old;
        end if;
    end if;
    raise exception 'grant_ends are append-only' using errcode = 'integrity_constraint_violation';
end
$$;

create trigger grant_ends_are_not_changed before update on grant_ends
    for each row execute function grant_ends_are_append_only();
create trigger grant_ends_go_only_with_their_chat before delete on grant_ends
    for each row execute function grant_ends_are_append_only();
create trigger grant_ends_are_not_emptied before truncate on grant_ends
    for each statement execute function grant_ends_are_append_only();

-- Grants that hold in all chats of an owner. They outlive the chat where they were given. The audit has who gave and revoked them.
create table owner_grants (
    owner text collate "C" not null,
    tool text collate "C" not null,
    scope text collate "C" not null,
    since bigint not null,
    terms text not null,
    primary key (owner, tool, scope)
);

-- The audit. It outlives chats, so no column refers to another table. docs/guide/audit.md lists the events.
-- principal, groups, channel, address: who did it, their groups as a JSON list, the way of the decision, and the address of the request;
-- null for a rule, if not known, or if there are no groups.
-- approval_id: the approval that the event is about.
-- owner, chat_id, tool: empty if the event is about none.
-- rule: as tool_calls.policy_source.
-- input_hash: SHA-256 in hexadecimal of tool_calls.edited_input, or of tool_calls.input if that is null.
-- shown_hash: the hash of the input that the person was shown, if the client sent it.
-- outcome: counted, refused or settled for an attempt to decide; null for other events.
-- subject: the memory that the event is about.
-- chain, position: the row's place. A chain is written by one start of a process, and its positions begin with 0.
-- prev, hash: the hash of the row before it in the chain, null for the first; and the hash of all other columns but id.
create table audit_events (
    id bigint generated always as identity primary key,
    at bigint not null,
    owner text collate "C" not null,
    principal text collate "C",
    groups text,
    channel text,
    address text,
    approval_id text collate "C",
    chat_id text collate "C" not null,
    run_id text collate "C",
    call_id text collate "C",
    tool text collate "C" not null,
    event text not null,
    rule text,
    reason text,
    input_hash text,
    shown_hash text,
    outcome text,
    subject text collate "C",
    chain text collate "C" not null,
    position bigint not null,
    prev text,
    hash text not null
);

create unique index audit_events_in_chains on audit_events (chain, position);
create index audit_events_by_time on audit_events (at, id);
create index audit_events_by_chat on audit_events (chat_id, at);
create index audit_events_by_owner on audit_events (owner, id);

-- The length of a chain, once a minute while it grows.
-- count: the number of rows, with those that the retention has removed. head: the hash of the last one.
-- key, signature: the public key and the Ed25519 signature in base64; null without audit_key.
create table audit_checkpoints (
    id bigint generated always as identity primary key,
    at bigint not null,
    chain text collate "C" not null,
    count bigint not null,
    head text not null,
    key text,
    signature text
);

create index audit_checkpoints_by_chain on audit_checkpoints (chain, count);
create index audit_checkpoints_by_time on audit_checkpoints (at);

-- The rows that the retention has removed from a chain, whose other rows begin there. A cut that another one covers may be deleted.
-- before: the time before which the rows were written. first, last: their positions.
-- prev, hash: the prev of the first row, and the hash of the last one. key, signature: as in audit_checkpoints.
create table audit_cuts (
    id bigint generated always as identity primary key,
    before bigint not null,
    chain text collate "C" not null,
    first bigint not null,
    last bigint not null,
    prev text,
    hash text not null,
    key text,
    signature text
);

create index audit_cuts_by_chain on audit_cuts (chain, first);

-- Rows older than this may be deleted. Only the retention sets it, in the transaction that deletes; otherwise it is null.
create table audit_retention (
    one bigint not null primary key check (one = 1),
    before bigint
);

insert into audit_retention (one, before) values (1, null);

create function audit_is_append_only() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' then
        perform 1 from audit_retention where audit_retention.before > old.at;
        if found then
            return old;
        end if;
    end if;
    raise exception '% are append-only', tg_table_name using errcode = 'integrity_constraint_violation';
end
$$;

create trigger audit_events_are_not_changed before update on audit_events
    for each row execute function audit_is_append_only();
create trigger audit_events_go_only_by_retention before delete on audit_events
    for each row execute function audit_is_append_only();
create trigger audit_events_are_not_emptied before truncate on audit_events
    for each statement execute function audit_is_append_only();

create trigger audit_checkpoints_are_not_changed before update on audit_checkpoints
    for each row execute function audit_is_append_only();
create trigger audit_checkpoints_go_only_by_retention before delete on audit_checkpoints
    for each row execute function audit_is_append_only();
create trigger audit_checkpoints_are_not_emptied before truncate on audit_checkpoints
    for each statement execute function audit_is_append_only();

create function audit_cuts_stay() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' then
        perform 1 from audit_cuts as e
        where e.chain = old.chain and e.id <> old.id and e.first <= old.first and e.last >= old.last;
        if found then
            return old;
        end if;
    end if;
    raise exception 'audit_cuts are append-only' using errcode = 'integrity_constraint_violation';
end
$$;

create trigger audit_cuts_are_not_changed before update on audit_cuts
    for each row execute function audit_cuts_stay();
create trigger audit_cuts_go_only_for_larger_ones before delete on audit_cuts
    for each row execute function audit_cuts_stay();
create trigger audit_cuts_are_not_emptied before truncate on audit_cuts
    for each statement execute function audit_cuts_stay();

-- === what belongs to a user, and to no chat ===

-- Notes. folded: title and body in lower case, as the program folds them, because lower() knows ASCII only.
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

-- Memories.
-- slot: the name of the one thing that the memory says, which no other memory of the owner says.
-- chat_id, message_id: where the user has said it. The message's id counts only while there is a chat.
-- origin: the party that has written it last, as JSON.
-- embedded_by: the model that made its vector; null if it has none.
create table memories (
    owner text collate "C" not null,
    id text collate "C" not null,
    kind text not null check (kind in ('preference', 'fact', 'entity', 'instruction')),
    text text not null,
    slot text collate "C",
    pinned boolean not null,
    chat_id text collate "C" references chats (id) on delete set null,
    message_id text collate "C",
    origin text not null,
    created_at bigint not null,
    recalled_at bigint,
    version bigint not null check (version >= 0),
    embedded_by text collate "C",
    primary key (owner, id),
    unique (owner, slot)
);

create index memories_by_time on memories (owner, created_at desc, id desc);
create index memories_by_chat on memories (chat_id) where chat_id is not null;
create index memories_by_embedding on memories (embedded_by);

-- The changes of an owner's memories that can be undone, in order.
-- before, after: the memory as JSON; null if it was not there.
create table memory_events (
    owner text collate "C" not null,
    position bigint not null check (position > 0),
    memory_id text collate "C" not null,
    at bigint not null,
    before text,
    after text,
    primary key (owner, position),
    check (before is not null or after is not null)
);

create index memory_events_by_memory on memory_events (owner, memory_id, position);
create index memory_events_by_time on memory_events (at);

-- vector: the numbers. dims: how many there are. If the extension pgvector is installed, queries cast them to its type.
create table memory_vectors (
    owner text collate "C" not null,
    memory_id text collate "C" not null,
    dims bigint not null check (dims > 0),
    vector real[] not null,
    primary key (owner, memory_id),
    foreign key (owner, memory_id) references memories (owner, id) on delete cascade
);

-- Such numbers are hardly compressed, and unpacking them would take most of the time of a search.
alter table memory_vectors alter column vector set storage external;

-- The kinds of requests that the stock pages of a user answer with. With hold = auto they decide how long streams are held.
-- answered_by_post_at: the last time that one answered by posting the chat again; null if none ever did.
-- answered_by_result_at: the last time that one answered by POST /chat/tool-result while its stream was open; null if none ever did.
create table owners (
    owner text collate "C" not null primary key,
    answered_by_post_at bigint,
    answered_by_result_at bigint
);

-- === channels ===

-- The notices that channels have to send, in the order of their commits. A notice that was sent has no row. No column refers to another
-- table, because a notice outlives its chat.
-- approval_id: the approval that it is about; null if it is about none.
-- data: JSON, the event as receivers read it.
-- attempts: the number of attempts, counted when one begins.
-- next_at: the time of the next attempt, or the end of the claim of an instance that is sending it; null if it was given up.
create table outbox (
    number bigint generated always as identity primary key,
    id text collate "C" not null unique,
    channel text collate "C" not null,
    event text not null,
    at bigint not null,
    approval_id text collate "C",
    data text not null,
    attempts bigint not null default 0 check (attempts >= 0),
    next_at bigint,
    given_up_at bigint,
    error text,
    check ((next_at is null) = (given_up_at is not null))
);

create index outbox_due on outbox (next_at) where next_at is not null;
create index outbox_by_approval on outbox (approval_id, channel, number) where next_at is not null and approval_id is not null;
create index outbox_given_up on outbox (given_up_at) where given_up_at is not null;

-- The messages about approvals that wait, which channels change or answer once the approval is settled.
-- recipient: the address of an e-mail; empty for a message that everybody shares.
-- reference: JSON, the message as the service names it.
create table channel_messages (
    approval_id text collate "C" not null,
    channel text collate "C" not null,
    recipient text collate "C" not null,
    reference text not null,
    sent_at bigint not null,
    primary key (approval_id, channel, recipient),
    foreign key (approval_id) references approvals (id) on delete cascade
);

-- The browsers of a user that receive push notifications.
-- groups: JSON, the groups that the user has proved with the registration. subscription: JSON, as the browser made it.
create table push_devices (
    endpoint text collate "C" not null primary key,
    owner text collate "C" not null,
    groups text not null,
    subscription text not null,
    created_at bigint not null
);

create index push_devices_by_owner on push_devices (owner, created_at);

-- The key pair that identifies this deployment to push services. The first instance that needs it makes it. key: the private key in PKCS#8,
-- as base64.
create table push_keys (
    id bigint not null primary key check (id = 1),
    key text not null
);

-- The one-time links in e-mails. hash: SHA-256 of the token, in hexadecimal. The token itself is in the mail only.
-- input_hash: the input that the recipient was shown. A row is kept as long as its approval, so that a late click shows the outcome.
create table mail_links (
    hash text collate "C" not null primary key,
    channel text collate "C" not null,
    approval_id text collate "C" not null,
    input_hash text collate "C" not null,
    recipient text collate "C" not null,
    approves boolean not null,
    created_at bigint not null,
    used_at bigint,
    foreign key (approval_id) references approvals (id) on delete cascade
);

create index mail_links_by_approval on mail_links (approval_id);

-- === instances ===

-- The instances that are alive. An instance that has ended has no row. Times are the database's own.
-- session: the second key of the advisory lock that the instance's own session holds. If nobody holds the lock, the session has ended.
-- process: the machine's boot, the namespace of process ids, the id, and the start of the process; null if the system does not tell. An
--   instance that starts on the same machine sees that the process is gone, and need not wait until it has been silent for long.
-- version: the version and the build of the server, for the log of the others.
create table instances (
    id text collate "C" not null primary key,
    session bigint not null,
    joined_at bigint not null,
    process text,
    version text not null
);

-- The last heartbeat of each instance. It is written every two seconds, and every version of a row stays while one snapshot is open. So
-- it has a table of its own, which no query about runs joins.
create table heartbeats (
    instance text collate "C" not null primary key references instances (id) on delete cascade,
    beat_at bigint not null
) with (fillfactor = 50);

-- resource: JSON, the name of the resource and its owner. It may be longer than an index takes, so its hash is unique.
create table resource_locks (
    resource text not null,
    instance text collate "C" not null references instances (id) on delete cascade
);

create unique index resource_locks_by_resource on resource_locks (md5(resource));
create index resource_locks_by_instance on resource_locks (instance);

-- The key that encrypts the messages between instances, as base64. The first instance that needs it makes it.
-- Anyone with read access to it can read and forge messages, and can read all chats in this database anyway.
create table cluster_keys (
    id bigint not null primary key check (id = 1),
    key text not null
);

-- A server that starts compares its clock with these times, so that a wrong clock deletes no chat and expires no call.
-- reached_at: the time that has certainly come. doubted_at: the time of a clock that has leapt, while that is not believed yet.
create table clock_marks (
    id bigint not null primary key check (id = 1),
    reached_at bigint not null,
    doubted_at bigint
);

-- The newest migration that a program has to know to use this database. Only migrations change it.
create table schema_floor (
    one bigint not null primary key check (one = 1),
    migration bigint not null
);

insert into schema_floor (one, migration) values (1, 1);
