-- Tool calls with a column for each thing that an operator asks about.
-- Each fact stands in one column only and the program puts a call together from them; created_at, started_at,
-- ended_at, expires_at and the three durations are worked out anew from the rest whenever a call is written. No
-- column is computed by the database, because other databases compute, and read JSON, in other ways.
--
-- created_at, started_at, ended_at: when the model made it, when it first ran, when it got its outcome. created_at
--   is null where that is not known: for calls older than this table.
-- waited_for_approval, waited_for_turn (for the gate or a lock), ran_for (or was parked for the browser):
--   microseconds, of what is over; null where it did not happen.
-- states: JSON, a list of {state, at} in order; at as in RFC 3339, exactly.
-- run_by: null where there is no tool of that name.
-- decision, ruled_by, ruling_reason: what the policy said. ruled_by: default, rule <place among the rules>, auto,
--   chain, always.
-- approved, for_always, decided_by, decided_reason: what a person said.
-- input, edited_input: JSON. outcome: JSON, the output, the text of the error, or why it was cancelled.
-- answered: whether the outcome is what the browser answered, word for word; the answer is not kept again.
-- more: JSON, what has no column.

create table tool_calls (
    chat_id text not null,
    run_id text not null,
    position integer not null check (position >= 0),
    id text not null,
    step integer not null,
    tool text not null,
    run_by text check (run_by in ('server', 'mcp', 'browser')),
    state text not null check (
        state in ('validating', 'awaiting_approval', 'scheduled', 'executing', 'success', 'error', 'cancelled')
    ),
    states text not null,
    created_at integer,
    started_at integer,
    ended_at integer,
    expires_at integer,
    waited_for_approval integer,
    waited_for_turn integer,
    ran_for integer,
    decision text check (decision in ('allow', 'ask', 'deny')),
    ruled_by text,
    ruling_reason text,
    approval_id text,
    approval_required integer check (approval_required in (0, 1)),
    approved integer check (approved in (0, 1)),
    for_always integer check (for_always in (0, 1)),
    decided_by text,
    decided_reason text,
    input text not null,
    edited_input text,
    outcome text,
    error_type text,
    answered integer not null check (answered in (0, 1)),
    more text not null,
    primary key (chat_id, id),
    unique (chat_id, run_id, position),
    foreign key (chat_id, run_id) references runs (chat_id, id) on delete cascade,
    check ((decision is null) = (ruled_by is null)),
    check ((approval_id is null) = (approval_required is null)),
    check ((approved is null) = (decided_by is null)),
    check ((approved is null) = (for_always is null)),
    check ((state in ('success', 'error', 'cancelled')) = (outcome is not null))
) strict;

create unique index tool_calls_by_approval on tool_calls (approval_id, chat_id) where approval_id is not null;
create index tool_calls_by_tool on tool_calls (tool, created_at);

-- Bodies hold the state in one of two forms, the older as an object of its own. Of older calls only the last state
-- and its time are known. A body that is no JSON is carried over as it is, so that it stands in the way of its own
-- chat only.
with
readable as (
    select calls.*, case when json_valid(body) then body else '{}' end as json from calls
),
parts as (
    select
        readable.*,
        case json_type(json, '$.state') when 'object' then json -> '$.state' else json end as outcome_json,
        json ->> '$.since' as since,
        json ->> '$.history[0].at' as made
    from readable
),
facts as (
    select
        parts.*,
        case state
            when 'success' then coalesce(outcome_json -> '$.output', 'null')
            when 'error' then coalesce(outcome_json -> '$.error_text', 'null')
            when 'cancelled' then coalesce(outcome_json -> '$.cancelled', 'null')
        end as outcome,
        unixepoch(substr(since, 1, 19)) * 1000000
            + cast(substr(rtrim(substr(since, 21), 'Z') || '000000', 1, 6) as integer) as since_at,
        unixepoch(substr(made, 1, 19)) * 1000000
            + cast(substr(rtrim(substr(made, 21), 'Z') || '000000', 1, 6) as integer) as made_at
    from parts
),
calls_in_full as (
    select
        facts.*,
        coalesce(
            case state
                when 'success' then outcome = json -> '$.answer.output'
                when 'error' then outcome = json -> '$.answer.error_text'
            end, 0
        ) as answered
    from facts
)
insert into tool_calls (
    chat_id, run_id, position, id, step, tool, run_by, state, states,
    created_at, started_at, ended_at, expires_at,
    decision, ruled_by, ruling_reason,
    approval_id, approval_required,
    approved, for_always, decided_by, decided_reason,
    input, edited_input, outcome, error_type, answered, more
)
select
    chat_id, run_id, position, id, step, tool, json ->> '$.run_by', state,
    case
        when json_array_length(json, '$.history') > 0 then json -> '$.history'
        else json_array(json_object('state', state, 'at', since))
    end,
    made_at,
    case when state = 'executing' then since_at end,
    case when state in ('success', 'error', 'cancelled') then since_at end,
    expires_at,
    json ->> '$.ruling.decision',
    case json_type(json, '$.ruling.by')
        when 'object' then 'rule ' || (json ->> '$.ruling.by.rule')
        else json ->> '$.ruling.by'
    end,
    json ->> '$.ruling.reason',
    approval_id,
    case when approval_id is not null then coalesce(json ->> '$.question.required', 1) end,
    json ->> '$.decided.approved',
    case when json ->> '$.decided.approved' is not null then coalesce(json ->> '$.decided.always', 0) end,
    case
        when json ->> '$.decided.approved' is not null
            then coalesce(json ->> '$.decided.by', (select owner from chats where chats.id = chat_id))
    end,
    json ->> '$.decided.reason',
    coalesce(json -> '$.input', 'null'),
    json -> '$.edited',
    outcome,
    case state
        when 'error' then coalesce(outcome_json ->> '$.error_type', 'internal')
        when 'cancelled' then case outcome ->> '$.why' when 'denied' then 'denied' else 'cancelled' end
    end,
    answered,
    case
        when json_valid(body) then json_remove(
            body, '$.id', '$.step', '$.tool', '$.run_by', '$.state', '$.history', '$.output', '$.error_type',
            '$.error_text', '$.cancelled', '$.ruling', '$.question', '$.decided', '$.input', '$.edited',
            case when answered then '$.answer' else '$.state' end
        )
        else body
    end
from calls_in_full;

drop table calls;
