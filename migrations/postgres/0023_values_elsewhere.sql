-- Large values of messages are kept once: files in a table of their own, inputs and outputs of calls where they are in tool_calls.

-- Whoever waits for this lock makes all others wait. If a long query holds a table, this is tried again later.
set local lock_timeout = '3s';

-- url: a data URL. hash: its SHA-256 in hexadecimal.
create table files (
    chat_id text collate "C" not null references chats (id) on delete cascade,
    hash text collate "C" not null,
    url text not null,
    primary key (chat_id, hash)
);

-- Base64 cannot be compressed, and trying takes longer than writing it.
alter table files alter column url set storage external;

-- elsewhere: JSON, a list of {at, file | input | editedInput | output}: the JSON pointer to a value that was cut out of body, and the
-- hash of a file, or the id of the call that has it in its column. Null if the body is whole.
-- bytes_elsewhere: by how much the body is shorter than the whole message.
alter table messages add column elsewhere text;
alter table messages add column bytes_elsewhere bigint not null default 0;

-- The size of a chat is that of its whole messages.
create or replace function messages_are_counted() returns trigger language plpgsql as $$
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

-- knows: the newest migration that the instance knows; null in those that do not know this one. While one of them is alive, no value is
-- cut out, and the first that is cut out raises the floor.
alter table instances add column knows bigint;
