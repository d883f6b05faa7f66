-- The process of an instance: the machine's boot, the namespace of process ids, the id, and the time at which the process was started; null
-- where a system does not tell. An instance that starts on the same machine sees that an earlier process is gone, and need not wait until it
-- has been silent for long.
set local lock_timeout = '3s';
alter table instances add column process text;
