-- Lists of chats say which can be followed and how much waits in each, and read nothing of a run's state to know it.

-- let_go: whether the readers of an open run were sent away while something of it waits.
-- questions: how many questions of its running calls wait for the person. Calls that wait are in tool_calls.
-- The version before this one keeps neither up: while both write, a list may be wrong about a run that the older one saved last.
alter table runs add column let_go boolean not null default false;
alter table runs add column questions bigint not null default 0;

-- As text, because a database refuses to read JSON that holds U+0000 in a string.
update runs set let_go = true where outcome is null and state like '%"letGo":true%';
