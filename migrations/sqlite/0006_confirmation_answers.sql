-- What a person answered, by one of three names: yes, yes for all later calls of the tool in the chat, no.

create table confirmation_answers (
    chat_id text not null,
    position integer not null check (position >= 0),
    run_id text not null,
    call_id text not null,
    tool text not null,
    approval_id text,
    input text not null,
    answer text not null check (answer in ('yes', 'yes_always', 'no')),
    reason text,
    decided_by text not null,
    decided_at integer not null,
    primary key (chat_id, position),
    foreign key (chat_id, run_id) references runs (chat_id, id) on delete cascade
) strict;

insert into confirmation_answers (
    chat_id, position, run_id, call_id, tool, approval_id, input, answer, reason, decided_by, decided_at
)
select
    chat_id, position, run_id, call_id, tool, approval_id, input,
    case when approved = 0 then 'no' when always = 1 then 'yes_always' else 'yes' end,
    reason, decided_by, decided_at
from confirmations;

-- Its triggers and its index go with it.
drop table confirmations;

alter table confirmation_answers rename to confirmations;

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
