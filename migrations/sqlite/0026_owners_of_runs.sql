-- The owner of the run's chat, so that the open runs of an owner are counted without reading the owner's chats.
-- owner: null in runs that were over before this.
alter table runs add column owner text;

update runs set owner = (select owner from chats where chats.id = runs.chat_id) where outcome is null;

-- By the database itself, so that it is right whichever version of the server writes. The owner of a chat never changes.
create trigger runs_have_owners after insert on runs begin
    update runs set owner = (select owner from chats where chats.id = new.chat_id)
    where chat_id = new.chat_id and id = new.id;
end;

-- The open runs of an owner at other instances are counted for each new run.
create index runs_open_by_owner on runs (owner, driver) where outcome is null;
