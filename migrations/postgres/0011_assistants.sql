-- The assistant and the model that the chat's last post that named one has named; null if no post has named any.
alter table chats add column assistant text;
alter table chats add column model text;
