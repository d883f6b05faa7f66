-- When each instance was heard of last, beside the instances themselves: this is written every two seconds, and every version of a row
-- stays while one snapshot is open, so nothing that looks at many runs may join it.
--
-- An instance of the version before this one has no row here and keeps instances.beat_at up. One of this version writes the end of time
-- there, so that an older one goes by its session alone.
create table heartbeats (
    instance text collate "C" not null primary key references instances (id) on delete cascade,
    beat_at bigint not null
) with (fillfactor = 50);
