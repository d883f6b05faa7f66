-- Decisions about an owner's calls are part of what the owner can take along.
create index audit_events_by_owner on audit_events (owner, id);
