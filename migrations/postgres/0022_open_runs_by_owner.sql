-- no-transaction
-- The open runs of an owner at other instances are counted for each new run.
create index concurrently if not exists runs_open_by_owner on runs (owner, driver) where outcome is null;
