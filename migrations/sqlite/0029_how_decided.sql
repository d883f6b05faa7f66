-- 0028 has written the text of tables itself. A connection that has just done so reads it again, or it would add columns in the wrong place.
pragma writable_schema = reset;

-- The way in which a person's decision came: button, words, message or api. Null for a rule, and if it is not known.
alter table audit_events add column how text;
alter table tool_calls add column decided_how text;
