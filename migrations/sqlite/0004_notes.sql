-- Notes, which belong to an owner and to no chat.
-- folded: title and body without case, as the program folds it, because lower() knows ASCII only.

create table notes (
    owner text not null,
    id text not null,
    title text not null,
    body text not null,
    folded text not null,
    created_at integer not null,
    primary key (owner, id)
) strict;

create index notes_by_owner on notes (owner, created_at desc, id desc);
