-- What people decided, and about which input: rows are added, never changed, and go only with their chat.

create table confirmations (
    chat_id text not null,
    position integer not null check (position >= 0),
    run_id text not null,
    call_id text not null,
    tool text not null,
    approval_id text,
    input text not null,
    approved integer not null check (approved in (0, 1)),
    always integer not null check (always in (0, 1)),
    reason text,
    decided_by text not null,
    decided_at integer not null,
    primary key (chat_id, position),
    foreign key (chat_id, run_id) references runs (chat_id, id) on delete cascade
) strict;

create index confirmations_for_always on confirmations (chat_id, position) where always = 1;

create trigger confirmations_are_not_changed before update on confirmations
begin
    select raise(abort, 'confirmations are append-only');
end;

-- A cascade deletes a chat's row before the rows that refer to it: while the chat is there, somebody else deletes.
create trigger confirmations_go_only_with_their_chat before delete on confirmations
when exists (select 1 from chats where chats.id = old.chat_id)
begin
    select raise(abort, 'confirmations are append-only');
end;

-- "insert or replace" deletes without asking the trigger above.
create trigger confirmations_are_not_replaced before insert on confirmations
when exists (select 1 from confirmations as c where c.chat_id = new.chat_id and c.position = new.position)
begin
    select raise(abort, 'confirmations are append-only');
end;
