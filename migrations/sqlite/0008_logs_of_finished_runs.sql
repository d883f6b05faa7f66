-- The log of a run that is over stays for a short time, for readers that look for the rest of it.

-- has_log: whether the run is over and its log is still there.
alter table runs add column has_log integer not null default 0 check (has_log in (0, 1));

create index runs_with_log on runs (ended_at, chat_id, id) where has_log;
