-- The version of the server that an instance runs, and its build, so that the log of the others can name it; null for those of earlier
-- versions.
set local lock_timeout = '3s';
alter table instances add column version text;
