-- The plan of a run, for people who look and for summaries. state: proposed, accepted, denied or done.
create table plans (
    chat_id text not null references chats (id) on delete cascade,
    run_id text not null,
    goal text not null,
    state text not null,
    created_at integer not null,
    changed_at integer not null,
    primary key (chat_id, run_id)
) strict;

-- The steps of a plan, in their order. depends_on: the ids of steps, as a JSON list. state: todo, doing, done, failed or skipped.
create table plan_steps (
    chat_id text not null,
    run_id text not null,
    position integer not null,
    id text not null,
    title text not null,
    tool text,
    depends_on text not null,
    state text not null,
    call_id text,
    primary key (chat_id, run_id, position),
    foreign key (chat_id, run_id) references plans (chat_id, run_id) on delete cascade
) strict;
