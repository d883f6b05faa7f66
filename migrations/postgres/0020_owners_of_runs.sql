-- The owner of the run's chat, so that the open runs of an owner are counted without reading the owner's chats.
-- owner: null in runs that were over before this.

-- Whoever waits for this lock makes all others wait. If a long query holds the table, this is tried again later.
set local lock_timeout = '3s';

alter table runs add column owner text collate "C";

-- By the database itself, so that it is right whichever version of the server writes. The owner of a chat never changes.
create function runs_have_owners() returns trigger language plpgsql as $$
begin
    new.owner := (select owner from chats where chats.id = new.chat_id);
    return new;
end
$$;

create trigger runs_have_owners before insert on runs for each row execute function runs_have_owners();
