-- What administrators see and steer: accounts removed for good, how routes stand, routes switched while the gateway runs,
-- caps of an account's batch requests, and the audit log by who, what and when.
-- Builds that know schema version 1 or newer may run beside it.

alter table accounts add column batch_max_concurrency integer check (batch_max_concurrency >= 0);

-- Accounts that are being removed for good, or were. The account itself is 'deleted' from the moment that is asked for.
create table account_purges (
    account_id   text primary key,
    asked_at     timestamptz not null,
    asked_by     text not null,
    waits_for    text[] not null default '{}',
    batches_left bigint not null default 0,
    files_left   bigint not null default 0,
    rows_removed bigint not null default 0,
    swept_to     timestamptz,
    looked_at    timestamptz,
    finished_at  timestamptz
);
-- What is to be done (accounts.open_purges).
create index account_purges_open on account_purges (looked_at nulls first) where finished_at is null;

-- What an administrator changed of a route while the gateway runs. Null: as it is configured.
create table provider_route_overrides (
    model_id   text not null,
    route_id   text not null,
    enabled    boolean,
    weight     double precision check (weight >= 0 and weight < 'infinity'),
    updated_at timestamptz not null,
    updated_by text not null,
    primary key (model_id, route_id)
);

-- How each process last found the routes that it uses.
create table route_health (
    process       text not null,
    model         text not null,
    route         text not null,
    state         text not null check (state in ('closed', 'open', 'half_open')),
    opened_at     timestamptz,
    failures      integer not null,
    opened        integer not null,
    closed        integer not null,
    in_flight     integer not null,
    most          integer,
    keys          integer not null,
    keys_resting  integer not null,
    last_error    text,
    seen_at       timestamptz not null,
    primary key (process, model, route)
) with (fillfactor = 50);

-- By whom, what, to which thing, and when, newest first (records.list_audit).
create index audit_log_actor on audit_log (actor collate "C", id);
create index audit_log_action on audit_log (action collate "C", id);
create index audit_log_object on audit_log (object, id);
create index audit_log_at on audit_log (at, id);
