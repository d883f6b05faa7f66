-- Decisions about calls, also of chats that are forgotten: no column refers to another table.
-- decided_by, address: which person, and from where; null for a rule, and where it is not known.
-- event: rule_allowed, rule_asked, rule_denied, approved, denied, edited, granted, grant_revoked.
-- rule: default, rule <place among the rules>, auto, chain, always, as in tool_calls.
-- input_hash: SHA-256 in hexadecimal of the bytes that tool_calls.input has, or edited_input where the input was edited.
create table audit_events (
    id bigint generated always as identity primary key,
    at bigint not null,
    owner text collate "C" not null,
    decided_by text collate "C",
    address text,
    chat_id text collate "C" not null,
    run_id text collate "C",
    call_id text collate "C",
    tool text collate "C" not null,
    event text not null,
    rule text,
    reason text,
    input_hash text
);

create index audit_events_by_time on audit_events (at, id);
create index audit_events_by_chat on audit_events (chat_id, at);

-- Rows older than this may be deleted. Only the retention sets it, within the transaction that deletes; otherwise it is null.
create table audit_retention (
    one bigint not null primary key check (one = 1),
    before bigint
);

insert into audit_retention (one, before) values (1, null);

create function audit_events_are_append_only() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' then
        perform 1 from audit_retention where audit_retention.before > old.at;
        if found then
            return old;
        end if;
    end if;
    raise exception 'audit_events are append-only' using errcode = 'integrity_constraint_violation';
end
$$;

create trigger audit_events_are_not_changed before update on audit_events
    for each row execute function audit_events_are_append_only();

create trigger audit_events_go_only_by_retention before delete on audit_events
    for each row execute function audit_events_are_append_only();

create trigger audit_events_are_not_emptied before truncate on audit_events
    for each statement execute function audit_events_are_append_only();
