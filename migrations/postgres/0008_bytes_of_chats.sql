-- What chats take, so that nobody has to read them to know it.

-- bytes: of the chat's messages, as they stand in body; null in chats that are older than this, until somebody has counted them.
-- The database keeps it up by itself, so that it is right whichever version of the server writes.
alter table chats add column bytes bigint;

-- By itself, because a default in the line above would be that of older chats, too.
alter table chats alter column bytes set default 0;

-- Once for each statement, because a statement may drop many messages.
create function messages_are_counted() returns trigger language plpgsql as $$
begin
    if tg_op <> 'INSERT' then
        update chats set bytes = chats.bytes - gone.size
        from (select chat_id, sum(octet_length(body)) as size from old_messages group by chat_id) as gone
        where chats.id = gone.chat_id;
    end if;
    if tg_op <> 'DELETE' then
        update chats set bytes = chats.bytes + come.size
        from (select chat_id, sum(octet_length(body)) as size from new_messages group by chat_id) as come
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
