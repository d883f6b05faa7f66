-- What chats take, so that nobody has to read them to know it.

-- bytes: of the chat's messages, as they stand in body; null in chats that are older than this, until somebody has counted them.
-- The database keeps it up by itself, so that it is right whichever version of the server writes.
alter table chats add column bytes integer;

create trigger messages_are_counted_when_added after insert on messages
begin
    update chats set bytes = bytes + octet_length(new.body) where id = new.chat_id;
end;

create trigger messages_are_counted_when_changed after update of body on messages
begin
    update chats set bytes = bytes + octet_length(new.body) - octet_length(old.body) where id = new.chat_id;
end;

create trigger messages_are_counted_when_dropped after delete on messages
begin
    update chats set bytes = bytes - octet_length(old.body) where id = old.chat_id;
end;
