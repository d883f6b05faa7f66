-- A check against a list of more than two values fills a table with them each time it is made. These say the same without a list. That a
-- check may be changed in this way is said at the end of https://www.sqlite.org/lang_altertable.html.
pragma writable_schema = on;
update sqlite_schema set sql = replace(sql,
    'role in (''system'', ''user'', ''assistant'')',
    '(role = ''system'' or role = ''user'' or role = ''assistant'')')
    where type = 'table' and name = 'messages';
update sqlite_schema set sql = replace(replace(replace(replace(sql,
    'run_by in (''server'', ''mcp'', ''browser'')',
    '(run_by = ''server'' or run_by = ''mcp'' or run_by = ''browser'')'),
    'state in (''validating'', ''awaiting_approval'', ''scheduled'', ''executing'', ''success'', ''error'', ''cancelled'')',
    '(state = ''validating'' or state = ''awaiting_approval'' or state = ''scheduled'' or state = ''executing'' or state = ''success'' or state = ''error'' or state = ''cancelled'')'),
    'decision in (''allow'', ''ask'', ''deny'')',
    '(decision = ''allow'' or decision = ''ask'' or decision = ''deny'')'),
    'state in (''success'', ''error'', ''cancelled'')',
    '(state = ''success'' or state = ''error'' or state = ''cancelled'')')
    where type = 'table' and name = 'tool_calls';
update sqlite_schema set sql = replace(sql,
    'answer in (''yes'', ''yes_always'', ''no'')',
    '(answer = ''yes'' or answer = ''yes_always'' or answer = ''no'')')
    where type = 'table' and name = 'confirmations';
update sqlite_schema set sql = replace(sql,
    'kind in (''preference'', ''fact'', ''entity'', ''instruction'')',
    '(kind = ''preference'' or kind = ''fact'' or kind = ''entity'' or kind = ''instruction'')')
    where type = 'table' and name = 'memories';
pragma writable_schema = off;

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
