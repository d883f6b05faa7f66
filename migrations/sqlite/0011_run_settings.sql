-- What a run was asked for does not change while it goes on, and may be large: it is saved once, and not with each change of the run.

-- settings: JSON. A run that an earlier version has opened has no row here; its state says all of it until it is saved again. The version
-- before this one cannot go on with a run that has a row, and leaves it to those that can.
-- A table of its own, because a database may write all of a row when one of its columns changes.
create table run_settings (
    chat_id text not null,
    run_id text not null,
    settings text not null,
    primary key (chat_id, run_id),
    foreign key (chat_id, run_id) references runs (chat_id, id) on delete cascade
) strict;
