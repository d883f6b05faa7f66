-- A grant covers a scope, holds in one chat or in all chats of an owner, and may have an end.
-- terms: JSON, what a decision covers besides its call: the scope, for whom, until when, and the fingerprints of the tools. Null if it
-- covers nothing else. It takes the place of fingerprint and of the answer yes_always, which are no longer written. What they allowed
-- covered every input of a tool, so it is asked about again.
alter table confirmations add column terms text;

-- scope: the id of the scope whose grant was revoked; null for all grants of the tool.
alter table grant_ends add column scope text;

-- Grants that hold in all chats of an owner. They outlive the chat in which they were given; the audit has who gave and revoked them.
create table owner_grants (
    owner text not null,
    tool text not null,
    scope text not null,
    since integer not null,
    terms text not null,
    primary key (owner, tool, scope)
) strict;
