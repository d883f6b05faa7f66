-- Decisions about calls, also of chats that are forgotten: no column refers to another table.
-- decided_by, address: which person, and from where; null for a rule, and where it is not known.
-- event: rule_allowed, rule_asked, rule_denied, approved, denied, edited, granted, grant_revoked.
-- rule: default, rule <place among the rules>, auto, chain, always, as in tool_calls.
-- input_hash: SHA-256 in hexadecimal of the bytes that tool_calls.input has, or edited_input where the input was edited.
create table audit_events (
    id integer not null primary key,
    at integer not null,
    owner text not null,
    decided_by text,
    address text,
    chat_id text not null,
    run_id text,
    call_id text,
    tool text not null,
    event text not null,
    rule text,
    reason text,
    input_hash text
) strict;

create index audit_events_by_time on audit_events (at, id);
create index audit_events_by_chat on audit_events (chat_id, at);

-- Rows older than this may be deleted. Only the retention sets it, within the transaction that deletes; otherwise it is null.
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

-- "insert or replace" deletes without asking the trigger above.
create trigger audit_events_are_not_replaced before insert on audit_events
when exists (select 1 from audit_events as e where e.id = new.id)
begin
    select raise(abort, 'audit_events are append-only');
end;
