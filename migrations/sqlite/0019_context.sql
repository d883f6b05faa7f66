-- How much of the chat its model is sent, as a JSON value of the engine; null if it is sent everything.
alter table chats add column context text;
