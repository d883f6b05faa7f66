-- What was allowed for always is bound to what the tool was, and can be taken back.
-- fingerprint: the hash of what the tool was when it was allowed for always; null for other answers, and where an older version noted none.
alter table confirmations add column fingerprint text;

-- One row for each time that somebody took back what was allowed for always: rows are added, never changed, and go only with their chat.
-- confirmations: how many confirmations the chat had then; only what was said before is taken back.
create table grant_ends (
    chat_id text not null references chats (id) on delete cascade,
    position integer not null check (position >= 0),
    tool text not null,
    confirmations integer not null check (confirmations >= 0),
    ended_by text not null,
    ended_at integer not null,
    primary key (chat_id, position)
) strict;

create trigger grant_ends_are_not_changed before update on grant_ends
begin
    select raise(abort, 'grant_ends are append-only');
end;

-- A cascade deletes a chat's row before the rows that refer to it: while the chat is there, somebody else deletes.
create trigger grant_ends_go_only_with_their_chat before delete on grant_ends
when exists (select 1 from chats where chats.id = old.chat_id)
begin
    select raise(abort, 'grant_ends are append-only');
end;

-- "insert or replace" deletes without asking the trigger above.
create trigger grant_ends_are_not_replaced before insert on grant_ends
when exists (select 1 from grant_ends as e where e.chat_id = new.chat_id and e.position = new.position)
begin
    select raise(abort, 'grant_ends are append-only');
end;

-- client: the version of the AI SDK that the chat's last post named, where it is more than a major version. profile has the major one,
-- which is all that the version before this one knows.
alter table chats add column client text;
