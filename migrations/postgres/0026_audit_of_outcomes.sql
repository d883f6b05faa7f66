set local lock_timeout = '3s';

-- subject: the memory that an event is about. owner, chat_id and tool are empty where an event has none.
-- docs/audit.md lists the events.
alter table audit_events add column subject text collate "C";

-- The party that has written the memory last: JSON, null where it was not noted.
alter table memories add column origin text;
