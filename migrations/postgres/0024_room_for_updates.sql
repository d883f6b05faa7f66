-- A chat's row is updated several times in each turn, for as long as the chat is used. If the new row fits on the page of the old one and no
-- index has what has changed, no index is written (a heap-only tuple), and the old row goes without a vacuum. So pages keep room for
-- that. A run's row is updated once or twice in all: there the room would cost more than it gives.
alter table chats set (fillfactor = 80);
