-- The way in which a person's decision came: button, words, message or api. Null for a rule, and if it is not known.
alter table audit_events add column how text;
alter table tool_calls add column decided_how text;
