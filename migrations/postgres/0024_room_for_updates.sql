-- Rows of chats and of runs are updated several times in each turn. If the new row fits on the page of the old one and no index has what
-- has changed, no index is written (a heap-only tuple), and the old row goes without a vacuum. So pages keep room for that.
alter table chats set (fillfactor = 80);
alter table runs set (fillfactor = 80);
