-- The tables of version 0.1.0. PostgreSQL has the same tables and columns; migrations/README.md has the rules for changes.
--
-- Times are integers: microseconds since 1970-01-01T00:00:00Z. Durations are microseconds. Structures are JSON as text.
-- Large values (body, state, context) stand last in their tables, because SQLite reads all of a value to reach a column behind it.
-- A check against a list of more than two values would fill a temporary table for each row, so such checks are written with `or`.

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
    id text not null primary key,
    owner text not null,
    version integer not null check (version > 0),
    profile text not null,
    created_at integer not null,
    updated_at integer not null,
    bytes integer not null default 0,
    assistant text,
    model text,
    title text,
    archived integer not null default 0 check (archived in (0, 1)),
    pinned integer not null default 0 check (pinned in (0, 1)),
    show text,
    stage text,
    requires_confirm integer check (requires_confirm in (0, 1)),
    last_tool text,
    last_result text,
    context text
) strict;

create index chats_by_owner on chats (owner, archived, pinned desc, updated_at desc, id desc);
create index chats_by_age on chats (updated_at, id);

-- Large values of a message are kept once: its files in `files`, the inputs and outputs of its calls in `calls`.
-- title: the beginning of a user's message, for lists of chats.
-- elsewhere: JSON, a list of {at, file | input | editedInput | output}: the JSON pointer to a value that was cut out of body, and the
--   hash of a file or the id of a call. Null if the body is whole.
-- bytes_elsewhere: the number of bytes that the body lacks of the whole message.
create table messages (
    chat_id text not null references chats (id) on delete cascade,
    position integer not null,
    id text not null,
    role text not null check (role = 'system' or role = 'user' or role = 'assistant'),
    title text,
    bytes_elsewhere integer not null check (bytes_elsewhere >= 0),
    elsewhere text,
    body text not null,
    primary key (chat_id, id),
    unique (chat_id, position)
) strict;

-- The size of a chat is that of its whole messages.
create trigger messages_are_counted_when_added after insert on messages
begin
    update chats set bytes = bytes + octet_length(new.body) + new.bytes_elsewhere where id = new.chat_id;
end;

create trigger messages_are_counted_when_changed after update of body, bytes_elsewhere on messages
begin
    update chats
    set bytes = bytes + octet_length(new.body) + new.bytes_elsewhere - octet_length(old.body) - old.bytes_elsewhere
    where id = new.chat_id;
end;

create trigger messages_are_counted_when_dropped after delete on messages
begin
    update chats set bytes = bytes - octet_length(old.body) - old.bytes_elsewhere where id = old.chat_id;
end;

-- url: a data URL. hash: its SHA-256 in hexadecimal.
create table files (
    chat_id text not null references chats (id) on delete cascade,
    hash text not null,
    url text not null,
    primary key (chat_id, hash)
) strict;

-- Summaries of the first messages of a chat, as JSON values of the engine. The one that covers most messages counts. The others count
-- again if messages are removed.
-- messages, up_to: the number of messages that it covers, and the last of them.
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

-- Chats that need a summary, and the earliest time when an instance may write it.
create table due_summaries (
    chat_id text not null primary key references chats (id) on delete cascade,
    due_at integer not null
) strict;

create index due_summaries_by_time on due_summaries (due_at);

-- The chats that their owners have deleted in the last 30 days. hash: SHA-256 in hexadecimal of the owner and the id.
create table deleted_chats (
    hash text not null primary key,
    deleted_at integer not null
) strict;

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
    chat_id text not null references chats (id) on delete cascade,
    id text not null,
    owner text not null,
    message_id text not null,
    instance text,
    waiting integer not null check (waiting in (0, 1)),
    detached integer not null check (detached in (0, 1)),
    questions integer not null check (questions >= 0),
    attempts integer not null check (attempts >= 0),
    expires_at integer,
    started_at integer not null,
    ended_at integer,
    outcome text,
    has_log integer not null default 0 check (has_log in (0, 1)),
    state text,
    primary key (chat_id, id),
    check ((outcome is null) = (ended_at is null)),
    check ((outcome is null) = (state is not null)),
    check (outcome is null or expires_at is null),
    check (outcome is null or instance is null)
) strict;

-- Each index of a run is a page more that two commits of a turn write.
create unique index runs_open on runs (chat_id) where outcome is null;
create index runs_due on runs (expires_at, chat_id) where outcome is null and expires_at is not null;
create index runs_at_work_by_instance on runs (instance, started_at, chat_id) where outcome is null and not waiting;
create index runs_open_by_owner on runs (owner, instance) where outcome is null;
create index runs_with_log on runs (ended_at, chat_id, id) where has_log;

-- The request that began a run, as JSON. It may be large and never changes, so a save of the run's state does not write it again.
create table run_settings (
    chat_id text not null,
    run_id text not null,
    settings text not null,
    primary key (chat_id, run_id),
    foreign key (chat_id, run_id) references runs (chat_id, id) on delete cascade
) strict;

-- One row for each time that the log grew.
-- first, next: the positions of the first chunk of the row and after the last one.
-- chunks: JSON texts as a sequence (RFC 7464), each between a record separator and a line end.
create table run_chunks (
    chat_id text not null,
    run_id text not null,
    first integer not null check (first > 0),
    next integer not null check (next > first),
    chunks text not null,
    primary key (chat_id, run_id, first),
    foreign key (chat_id, run_id) references runs (chat_id, id) on delete cascade
) strict;

-- The plan of a run, for people who look and for summaries. state: proposed, accepted, denied or done.
create table plans (
    chat_id text not null references chats (id) on delete cascade,
    run_id text not null,
    goal text not null,
    state text not null,
    created_at integer not null,
    changed_at integer not null,
    primary key (chat_id, run_id)
) strict;

-- depends_on: the ids of other steps, as a JSON list. state: todo, doing, done, failed or skipped.
create table plan_steps (
    chat_id text not null,
    run_id text not null,
    position integer not null,
    id text not null,
    title text not null,
    tool text,
    depends_on text not null,
    state text not null,
    note text,
    call_id text,
    primary key (chat_id, run_id, position),
    foreign key (chat_id, run_id) references plans (chat_id, run_id) on delete cascade
) strict;

-- === calls, and what people and rules decide about them ===

-- call: the whole call, as JSON. The other columns repeat what queries look for, and have what the program computes from the states.
--   The view `tool_calls` has more of it in columns.
-- run_by: null if there is no tool of that name.
-- created_at, started_at, ended_at: the times when the model made it, it first ran, and it got its outcome.
-- waited_for_approval, waited_for_turn (for the gate or a lock), ran_for (or was parked for the browser): what is over; null for what
--   did not happen.
create table calls (
    chat_id text not null,
    run_id text not null,
    position integer not null check (position >= 0),
    id text not null,
    tool text not null,
    run_by text check (run_by = 'server' or run_by = 'mcp' or run_by = 'browser'),
    state text not null check (
        state = 'validating' or state = 'awaiting_approval' or state = 'scheduled' or state = 'executing'
        or state = 'success' or state = 'error' or state = 'cancelled'
    ),
    error_type text,
    created_at integer not null,
    started_at integer,
    ended_at integer,
    expires_at integer,
    waited_for_approval integer,
    waited_for_turn integer,
    ran_for integer,
    approval_id text,
    call text not null,
    primary key (chat_id, id),
    unique (chat_id, run_id, position),
    foreign key (chat_id, run_id) references runs (chat_id, id) on delete cascade
) strict;

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
select chat_id, run_id, position, id, call ->> '$.step' as step, tool, run_by, state, call -> '$.history' as states,
    created_at, started_at, ended_at, expires_at, waited_for_approval, waited_for_turn, ran_for,
    call ->> '$.policy_decision.decision' as policy_decision,
    coalesce('rule ' || (call ->> '$.policy_decision.by.rule'), call ->> '$.policy_decision.by') as policy_source,
    call ->> '$.policy_decision.reason' as policy_reason,
    approval_id,
    call ->> '$.approval_decision.approved' as approved,
    call ->> '$.approval_decision.always' as always,
    call ->> '$.approval_decision.by' as decided_by,
    call ->> '$.approval_decision.reason' as decided_reason,
    call ->> '$.approval_decision.how' as decided_how,
    call -> '$.input' as input,
    call -> '$.edited' as edited_input,
    case state
        when 'success' then call -> '$.output'
        when 'error' then call -> '$.error_text'
        when 'cancelled' then call -> '$.cancelled'
    end as outcome,
    error_type
from calls;

-- The approvals that calls needed, for the people who decide about them. Each row follows from its call. A call that is asked about again has
-- several.
-- state: waiting, approved, denied, expired or cancelled.
-- terms: the hash of the terms; null if the requester decides.
create table approvals (
    id text not null primary key,
    chat_id text not null,
    call_id text not null,
    owner text not null,
    tool text not null,
    state text not null,
    requested_at integer not null,
    settled_at integer,
    changed_at integer not null,
    terms text,
    foreign key (chat_id, call_id) references calls (chat_id, id) on delete cascade,
    check ((state = 'waiting') = (settled_at is null))
) strict;

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
) strict;

-- The decisions of people, and the inputs that they are about. Rows are added, never changed, and go only with their chat.
-- terms: JSON, what the decision covers besides its call: the scope, the people, the end, and the fingerprints of the tools. Null if it
--   covers nothing else.
create table confirmations (
    chat_id text not null,
    position integer not null check (position >= 0),
    run_id text not null,
    call_id text not null,
    tool text not null,
    approval_id text,
    approved integer not null check (approved in (0, 1)),
    reason text,
    decided_by text not null,
    decided_at integer not null,
    terms text,
    input text not null,
    primary key (chat_id, position),
    foreign key (chat_id, run_id) references runs (chat_id, id) on delete cascade
) strict;

create index confirmations_by_person on confirmations (decided_by, approval_id) where approval_id is not null;

create trigger confirmations_are_not_changed before update on confirmations
begin
    select raise(abort, 'confirmations are append-only');
end;

-- A cascade deletes a chat's row before the rows that refer to it. While the chat is there, somebody else deletes.
create trigger confirmations_go_only_with_their_chat before delete on confirmations
when exists (select 1 from chats where chats.id = old.chat_id)
begin
    select raise(abort, 'confirmations are append-only');
end;

-- "insert or replace" deletes without the trigger above.
create trigger confirmations_are_not_replaced before insert on confirmations
when exists (select 1 from confirmations as c where c.chat_id = new.chat_id and c.position = new.position)
begin
    select raise(abort, 'confirmations are append-only');
end;

-- The revocations of a chat's grants. Rows are added, never changed, and go only with their chat.
-- scope: the id of the scope whose grant was revoked; null for all grants of the tool.
-- confirmations: the number of confirmations that the chat had then. Only grants of those are revoked.
create table grant_ends (
    chat_id text not null references chats (id) on delete cascade,
    position integer not null check (position >= 0),
    tool text not null,
    scope text,
    confirmations integer not null check (confirmations >= 0),
    ended_by text not null,
    ended_at integer not null,
    primary key (chat_id, position)
) strict;

create trigger grant_ends_are_not_changed before update on grant_ends
begin
    select raise(abort, 'grant_ends are append-only');
end;

create trigger grant_ends_go_only_with_their_chat before delete on grant_ends
when exists (select 1 from chats where chats.id = old.chat_id)
begin
    select raise(abort, 'grant_ends are append-only');
end;

create trigger grant_ends_are_not_replaced before insert on grant_ends
when exists (select 1 from grant_ends as e where e.chat_id = new.chat_id and e.position = new.position)
begin
    select raise(abort, 'grant_ends are append-only');
end;

-- Grants that hold in all chats of an owner. They outlive the chat where they were given. The audit has who gave and revoked them.
create table owner_grants (
    owner text not null,
    tool text not null,
    scope text not null,
    since integer not null,
    terms text not null,
    primary key (owner, tool, scope)
) strict;

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
    id integer not null primary key,
    at integer not null,
    owner text not null,
    principal text,
    groups text,
    channel text,
    address text,
    approval_id text,
    chat_id text not null,
    run_id text,
    call_id text,
    tool text not null,
    event text not null,
    rule text,
    reason text,
    input_hash text,
    shown_hash text,
    outcome text,
    subject text,
    chain text not null,
    position integer not null,
    prev text,
    hash text not null
) strict;

create unique index audit_events_in_chains on audit_events (chain, position);
create index audit_events_by_time on audit_events (at, id);
create index audit_events_by_chat on audit_events (chat_id, at);
create index audit_events_by_owner on audit_events (owner, id);

-- The length of a chain, once a minute while it grows.
-- count: the number of rows, with those that the retention has removed. head: the hash of the last one.
-- key, signature: the public key and the Ed25519 signature in base64; null without audit_key.
create table audit_checkpoints (
    id integer not null primary key,
    at integer not null,
    chain text not null,
    count integer not null,
    head text not null,
    key text,
    signature text
) strict;

create index audit_checkpoints_by_chain on audit_checkpoints (chain, count);
create index audit_checkpoints_by_time on audit_checkpoints (at);

-- The rows that the retention has removed from a chain, whose other rows begin there. A cut that another one covers may be deleted.
-- before: the time before which the rows were written. first, last: their positions.
-- prev, hash: the prev of the first row, and the hash of the last one. key, signature: as in audit_checkpoints.
create table audit_cuts (
    id integer not null primary key,
    before integer not null,
    chain text not null,
    first integer not null,
    last integer not null,
    prev text,
    hash text not null,
    key text,
    signature text
) strict;

create index audit_cuts_by_chain on audit_cuts (chain, first);

-- Rows older than this may be deleted. Only the retention sets it, in the transaction that deletes; otherwise it is null.
create table audit_retention (
    one integer not null primary key check (one = 1),
    before integer
) strict;

insert into audit_retention (one, before) values (1, null);

create trigger audit_events_are_not_changed before update on audit_events
begin
    select raise(abort, 'audit_events are append-only');
end;

create trigger audit_events_go_only_by_retention before delete on audit_events
when not exists (select 1 from audit_retention where audit_retention.before > old.at)
begin
    select raise(abort, 'audit_events are append-only');
end;

create trigger audit_events_are_not_replaced before insert on audit_events
when exists (select 1 from audit_events as e where e.id = new.id)
    or exists (select 1 from audit_events as e where e.chain = new.chain and e.position = new.position)
begin
    select raise(abort, 'audit_events are append-only');
end;

create trigger audit_checkpoints_are_not_changed before update on audit_checkpoints
begin
    select raise(abort, 'audit_checkpoints are append-only');
end;

create trigger audit_checkpoints_go_only_by_retention before delete on audit_checkpoints
when not exists (select 1 from audit_retention where audit_retention.before > old.at)
begin
    select raise(abort, 'audit_checkpoints are append-only');
end;

create trigger audit_checkpoints_are_not_replaced before insert on audit_checkpoints
when exists (select 1 from audit_checkpoints as e where e.id = new.id)
begin
    select raise(abort, 'audit_checkpoints are append-only');
end;

create trigger audit_cuts_are_not_changed before update on audit_cuts
begin
    select raise(abort, 'audit_cuts are append-only');
end;

create trigger audit_cuts_go_only_for_larger_ones before delete on audit_cuts
when not exists (
    select 1 from audit_cuts as e
    where e.chain = old.chain and e.id <> old.id and e.first <= old.first and e.last >= old.last
)
begin
    select raise(abort, 'audit_cuts are append-only');
end;

create trigger audit_cuts_are_not_replaced before insert on audit_cuts
when exists (select 1 from audit_cuts as e where e.id = new.id)
begin
    select raise(abort, 'audit_cuts are append-only');
end;

-- === what belongs to a user, and to no chat ===

-- Notes. folded: title and body in lower case, as the program folds them, because lower() knows ASCII only.
create table notes (
    owner text not null,
    id text not null,
    title text not null,
    body text not null,
    folded text not null,
    created_at integer not null,
    primary key (owner, id)
) strict;

create index notes_by_owner on notes (owner, created_at desc, id desc);

-- Memories.
-- slot: the name of the one thing that the memory says, which no other memory of the owner says.
-- chat_id, message_id: where the user has said it. The message's id counts only while there is a chat.
-- origin: the party that has written it last, as JSON.
-- embedded_by: the model that made its vector; null if it has none.
create table memories (
    owner text not null,
    id text not null,
    kind text not null check (kind = 'preference' or kind = 'fact' or kind = 'entity' or kind = 'instruction'),
    text text not null,
    slot text,
    pinned integer not null check (pinned in (0, 1)),
    chat_id text references chats (id) on delete set null,
    message_id text,
    origin text not null,
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

-- The changes of an owner's memories that can be undone, in order.
-- before, after: the memory as JSON; null if it was not there.
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

-- The kinds of requests that the stock pages of a user answer with. With hold = auto they decide how long streams are held.
-- answered_by_post_at: the last time that one answered by posting the chat again; null if none ever did.
-- answered_by_result_at: the last time that one answered by POST /chat/tool-result while its stream was open; null if none ever did.
create table owners (
    owner text not null primary key,
    answered_by_post_at integer,
    answered_by_result_at integer
) strict;

-- === channels ===

-- The notices that channels have to send, in the order of their commits. A notice that was sent has no row. No column refers to another
-- table, because a notice outlives its chat.
-- approval_id: the approval that it is about; null if it is about none.
-- data: JSON, the event as receivers read it.
-- attempts: the number of attempts, counted when one begins.
-- next_at: the time of the next attempt, or the end of the claim of an instance that is sending it; null if it was given up.
create table outbox (
    number integer not null primary key,
    id text not null unique,
    channel text not null,
    event text not null,
    at integer not null,
    approval_id text,
    data text not null,
    attempts integer not null default 0 check (attempts >= 0),
    next_at integer,
    given_up_at integer,
    error text,
    check ((next_at is null) = (given_up_at is not null))
) strict;

create index outbox_due on outbox (next_at) where next_at is not null;
create index outbox_by_approval on outbox (approval_id, channel, number) where next_at is not null and approval_id is not null;
create index outbox_given_up on outbox (given_up_at) where given_up_at is not null;

-- The messages about approvals that wait, which channels change or answer once the approval is settled.
-- recipient: the address of an e-mail; empty for a message that everybody shares.
-- reference: JSON, the message as the service names it.
create table channel_messages (
    approval_id text not null,
    channel text not null,
    recipient text not null,
    reference text not null,
    sent_at integer not null,
    primary key (approval_id, channel, recipient),
    foreign key (approval_id) references approvals (id) on delete cascade
) strict;

-- The browsers of a user that receive push notifications.
-- groups: JSON, the groups that the user has proved with the registration. subscription: JSON, as the browser made it.
create table push_devices (
    endpoint text not null primary key,
    owner text not null,
    groups text not null,
    subscription text not null,
    created_at integer not null
) strict;

create index push_devices_by_owner on push_devices (owner, created_at);

-- The key pair that identifies this deployment to push services. The first instance that needs it makes it. key: the private key in PKCS#8,
-- as base64.
create table push_keys (
    id integer not null primary key check (id = 1),
    key text not null
) strict;

-- The one-time links in e-mails. hash: SHA-256 of the token, in hexadecimal. The token itself is in the mail only.
-- input_hash: the input that the recipient was shown. A row is kept as long as its approval, so that a late click shows the outcome.
create table mail_links (
    hash text not null primary key,
    channel text not null,
    approval_id text not null,
    input_hash text not null,
    recipient text not null,
    approves integer not null check (approves in (0, 1)),
    created_at integer not null,
    used_at integer,
    foreign key (approval_id) references approvals (id) on delete cascade
) strict;

create index mail_links_by_approval on mail_links (approval_id);

-- === instances ===

-- The instances that are alive. An instance that has ended has no row.
create table instances (
    id text not null primary key,
    joined_at integer not null
) strict;

-- resource: JSON, the name of the resource and its owner.
create table resource_locks (
    resource text not null primary key,
    instance text not null references instances (id) on delete cascade
) strict;

create index resource_locks_by_instance on resource_locks (instance);

-- The key that encrypts the messages between instances, as base64. The first instance that needs it makes it.
-- Anyone with read access to it can read and forge messages, and can read all chats in this database anyway.
create table cluster_keys (
    id integer not null primary key check (id = 1),
    key text not null
) strict;

-- A server that starts compares its clock with these times, so that a wrong clock deletes no chat and expires no call.
-- reached_at: the time that has certainly come. doubted_at: the time of a clock that has leapt, while that is not believed yet.
create table clock_marks (
    id integer not null primary key check (id = 1),
    reached_at integer not null,
    doubted_at integer
) strict;

-- The newest migration that a program has to know to use this database. Only migrations change it.
create table schema_floor (
    one integer not null primary key check (one = 1),
    migration integer not null
) strict;

insert into schema_floor (one, migration) values (1, 1);
