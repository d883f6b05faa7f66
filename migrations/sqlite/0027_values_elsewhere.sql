-- Large values of messages are kept once: files in a table of their own, inputs and outputs of calls where they are in tool_calls.

-- url: a data URL. hash: its SHA-256 in hexadecimal.
create table files (
    chat_id text not null references chats (id) on delete cascade,
    hash text not null,
    url text not null,
    primary key (chat_id, hash)
) strict;

-- elsewhere: JSON, a list of {at, file | input | editedInput | output}: the JSON pointer to a value that was cut out of body, and the
-- hash of a file, or the id of the call that has it in its column. Null if the body is whole.
-- bytes_elsewhere: by how much the body is shorter than the whole message.
alter table messages add column elsewhere text;
alter table messages add column bytes_elsewhere integer not null default 0 check (bytes_elsewhere >= 0);

-- The size of a chat is that of its whole messages.
drop trigger messages_are_counted_when_added;
drop trigger messages_are_counted_when_changed;
drop trigger messages_are_counted_when_dropped;

create trigger messages_are_counted_when_added after insert on messages
begin
    update chats set bytes = bytes + octet_length(new.body) + new.bytes_elsewhere where id = new.chat_id;
end;

create trigger messages_are_counted_when_changed after update of body, bytes_elsewhere on messages
begin
    update chats
    set bytes = bytes + octet_length(new.body) + new.bytes_elsewhere - octet_length(old.body) - old.bytes_elsewhere
    where id = new.chat_id;
end;

create trigger messages_are_counted_when_dropped after delete on messages
begin
    update chats set bytes = bytes - octet_length(old.body) - old.bytes_elsewhere where id = old.chat_id;
end;

-- knows: the newest migration that the instance knows; null in those that do not know this one. While one of them is alive, no value is
-- cut out, and the first that is cut out raises the floor.
alter table instances add column knows integer;
