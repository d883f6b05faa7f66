-- The plan of a run, for people who look and for summaries. state: proposed, accepted, denied or done.
create table plans (
    chat_id text collate "C" not null references chats (id) on delete cascade,
    run_id text collate "C" not null,
    goal text collate "C" not null,
    state text not null,
    created_at bigint not null,
    changed_at bigint not null,
    primary key (chat_id, run_id)
);

-- The steps of a plan, in their order. depends_on: the ids of steps, as a JSON list. state: todo, doing, done, failed or skipped.
create table plan_steps (
    chat_id text collate "C" not null,
    run_id text collate "C" not null,
    position bigint not null,
    id text collate "C" not null,
    title text collate "C" not null,
    tool text collate "C",
    depends_on text not null,
    state text not null,
    call_id text collate "C",
    primary key (chat_id, run_id, position),
    foreign key (chat_id, run_id) references plans (chat_id, run_id) on delete cascade
);
