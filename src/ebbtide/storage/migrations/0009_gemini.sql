-- Batches made through Gemini's API: what they are for, their priority among their account's, whether a file held their
-- requests. Uploads that come in parts.
-- Builds that know schema version 1 or newer may run beside it: they make and run no such batch.

alter table batch_jobs
    add column priority bigint not null default 0,
    add column from_file boolean not null default false,
    drop constraint batch_jobs_target_check,
    add constraint batch_jobs_target_check
        check (target in ('chat', 'embeddings', 'responses', 'messages', 'gemini', 'gemini_embed'));

create table file_uploads (
    token      bytea primary key,                -- SHA-256 of the secret in the upload's URL
    account_id text not null,
    filename   text not null,
    size       bigint,                           -- as announced; null where it was not
    received   bigint not null default 0 check (received >= 0),
    file_id    text,                             -- what it came to
    created_at timestamptz not null,
    expires_at timestamptz not null
);
-- What is due for removal (files.expire_uploads).
create index file_uploads_expiring on file_uploads (expires_at);
-- An account's (files.count_open_uploads, files.drop_account_uploads).
create index file_uploads_account on file_uploads (account_id);

create table file_upload_parts (
    token bytea not null references file_uploads on delete cascade,
    start bigint not null,
    data  bytea not null,
    primary key (token, start)
);
alter table file_upload_parts alter column data set storage external;
