-- What was allowed for always is bound to what the tool was, and can be taken back.
-- fingerprint: the hash of what the tool was when it was allowed for always; null for other answers, and where an older version noted none.
alter table confirmations add column fingerprint text;

-- One row for each time that somebody took back what was allowed for always: rows are added, never changed, and go only with their chat.
-- confirmations: how many confirmations the chat had then; only what was said before is taken back.
create table grant_ends (
    chat_id text collate "C" not null references chats (id) on delete cascade,
    position bigint not null check (position >= 0),
    tool text collate "C" not null,
    confirmations bigint not null check (confirmations >= 0),
    ended_by text collate "C" not null,
    ended_at bigint not null,
    primary key (chat_id, position)
);

create function grant_ends_are_append_only() returns trigger language plpgsql as $$
begin
    -- A cascade deletes a chat's row before the rows that refer to it: while the chat is there, somebody else deletes.
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

-- client: the version of the AI SDK that the chat's last post named, where it is more than a major version. profile has the major one,
-- which is all that the version before this one knows.
alter table chats add column client text;
