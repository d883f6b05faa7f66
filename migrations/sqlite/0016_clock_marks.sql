-- How far time has come, as far as it is certain, and the time to which the clock had leapt if that was not believed yet; both in
-- microseconds since 1970. There is one row at most. A clock that says something else when a server starts is compared with it, so that
-- a wrong one does not forget chats and has no call expire.
create table clock_marks (
    id         integer not null primary key check (id = 1),
    reached_at integer not null,
    doubted_at integer
) strict;
