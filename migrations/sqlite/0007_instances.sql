-- Several writers: a number that fences off who is behind, who drives a run, who is alive, and locks that end with
-- their holder. Rows of older versions have changed once, and are driven by nobody; whether their runs wait is not
-- known, so they count as at work: to take up one that waits does no harm.

-- fence: how often the chat has been written to.
alter table chats add column fence integer not null default 1 check (fence > 0);

create index chats_by_age on chats (updated_at, id);

-- driver: which instance drives it, also one that has ended; null for nobody.
-- waiting: whether it goes on only when somebody answers, or when its time is over.
alter table runs add column driver text check (driver is null or outcome is null);
alter table runs add column waiting integer not null default 0 check (waiting in (0, 1));

create index runs_at_work on runs (started_at, chat_id) where outcome is null and not waiting;
create index runs_by_driver on runs (driver) where driver is not null;

-- Who is alive. An instance that has ended has no row.
create table instances (
    id text not null primary key,
    joined_at integer not null
) strict;

-- resource: JSON, its name and whose it is.
create table resource_locks (
    resource text not null primary key,
    instance text not null references instances (id) on delete cascade
) strict;

create index resource_locks_by_instance on resource_locks (instance);

-- The newest migration that a program has to know to use this database. Only migrations change it.
create table schema_floor (
    one integer not null primary key check (one = 1),
    migration integer not null
) strict;

insert into schema_floor (one, migration) values (1, 7);
