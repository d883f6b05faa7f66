-- Each turn of a chat wrote two pages of this index. Old chats are looked for by their owners.
drop index chats_by_age;
