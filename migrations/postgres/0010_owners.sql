-- The time at which an owner's client last answered by posting the chat again, in microseconds since 1970; null if it never did. With
-- hold = auto such a client is not held again.
create table owners (
    owner               text not null primary key,
    answered_by_post_at bigint
);
