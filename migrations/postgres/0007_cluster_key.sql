-- The key with which instances seal what they write to each other, made by the first one that needs it. There is one row at most. As
-- base64; whoever reads it can read and forge letters, as whoever reads this database could read all that is in them anyway.
create table cluster_keys (
    id  bigint not null primary key check (id = 1),
    key text not null
);
