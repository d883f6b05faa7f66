-- no-transaction
-- The runs that were open before runs had owners, in batches, so that nobody waits long for a row.
do $$
declare
    before text := '';
    last text;
begin
    loop
        select max(chat_id) into last from (
            select chat_id from runs where outcome is null and chat_id > before order by chat_id limit 1000
        ) as batch;
        exit when last is null;
        update runs set owner = chats.owner
        from chats
        where chats.id = runs.chat_id and runs.outcome is null and runs.owner is null
            and runs.chat_id > before and runs.chat_id <= last;
        commit;
        before := last;
    end loop;
end
$$;
