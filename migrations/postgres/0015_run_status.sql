-- The status of the chat's last run, for people who look; null if there was none since this migration.
-- stage: idle, plan, tool_call, tool_result, decide or respond. last_tool, last_result: the call that got its outcome last, and the beginning of what the model was told.
alter table chats add column stage text;
alter table chats add column requires_confirm boolean;
alter table chats add column last_tool text collate "C";
alter table chats add column last_result text;
