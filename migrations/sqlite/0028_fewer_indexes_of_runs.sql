-- Each index of a run is a page more that two commits of a turn write.

-- Runs at work are found by driver.
drop index runs_at_work;

-- There is one instance. When it leaves, it looks at all open runs.
drop index runs_by_driver;

-- For versions of the server that do not say the owner themselves. The owner of a chat never changes.
drop trigger runs_have_owners;
create trigger runs_have_owners after insert on runs when new.owner is null begin
    update runs set owner = (select owner from chats where chats.id = new.chat_id)
    where chat_id = new.chat_id and id = new.id;
end;
