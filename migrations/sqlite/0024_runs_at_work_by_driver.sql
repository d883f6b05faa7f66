-- Runs at work are looked for by their drivers, of which there are few, and not one by one.
create index runs_at_work_by_driver on runs (driver, started_at, chat_id) where outcome is null and not waiting;
