-- What a process needs that takes up a run which another one has left.

-- attempts: how often the run was taken up to be worked on since it last got on. Counted before the work begins, so that a run which ends
-- every process that drives it is given up in the end.
-- The version before this one does not keep it up: a run that it goes on with may be given up earlier than it should be.
alter table runs add column attempts bigint not null default 0;
