-- Quotas and budgets, rests of models, interactive load, idempotency, webhooks, settings, request log.
-- Builds that know schema version 1 or newer may run beside it.

alter table accounts
    add column daily_quota_usd numeric(24, 12) check (daily_quota_usd >= 0),
    add column monthly_quota_usd numeric(24, 12) check (monthly_quota_usd >= 0);

alter table api_keys
    add column daily_budget_usd numeric(24, 12) check (daily_budget_usd >= 0),
    add column monthly_budget_usd numeric(24, 12) check (monthly_budget_usd >= 0);

-- Run-time settings ---------------------------------------------------------------------------------------------------

create table settings (
    name       text primary key,
    value      text not null,
    updated_at timestamptz not null,
    updated_by text not null
);

create table audit_log (
    id         bigint generated always as identity primary key,
    at         timestamptz not null,
    actor      text not null,
    action     text not null,
    object     text not null,
    account_id text,
    detail     jsonb not null default '{}'
);
-- What happened to an account, newest first (records.list_audit).
create index audit_log_account on audit_log (account_id, id) where account_id is not null;

-- Batches -------------------------------------------------------------------------------------------------------------

alter table batch_jobs
    add column version bigint not null default 1,
    add column results_full boolean not null default false,
    add column name text,
    add column model text;

alter table batch_items add column max_tokens integer;

alter table batch_user_state
    add column blocked_reason text check (blocked_reason in ('daily_quota', 'monthly_quota')),
    add column blocked_until timestamptz,
    add column at_cap boolean not null default false;

create function batch_job_changed() returns trigger language plpgsql as $$
begin
    new.version := old.version + 1;
    if new.phase = 'sealed' and old.phase <> 'sealed' then
        insert into batch_webhook_events (id, account_id, batch_id, type, created_at, next_at)
        select 'evt_' || replace(gen_random_uuid()::text, '-', ''), w.account_id, new.id,
               case new.api_surface when 'anthropic' then 'message_batch.ended'
               else 'batch.' || batch_status(new.phase, new.closing, new.in_progress_at, new.expired) end,
               new.sealed_at, new.sealed_at
        from batch_webhooks w where w.account_id = new.account_id and w.enabled;
        if found then
            perform pg_notify('ebbtide_webhooks', '');
        end if;
        update batch_idempotency set forget_at = new.sealed_at + interval '1 day' where batch_id = new.id;
    end if;
    return new;
end
$$;
create trigger batch_job_changed before update on batch_jobs
for each row execute function batch_job_changed();

-- Whether requests of a batch may start. Nothing else decides that.
create function batch_may_start(
    phase text, closing text, results_full boolean, deleted_at timestamptz, expires_at timestamptz, moment timestamptz)
returns boolean immutable parallel safe language sql as $$
    select phase = 'open' and closing is null and not results_full and deleted_at is null
       and (expires_at is null or expires_at > moment)
$$;

-- Whether an account may still act through one of its keys.
create function may_act(account_state text, revoked_at timestamptz, key_expires_at timestamptz, moment timestamptz)
returns boolean immutable parallel safe language sql as $$
    select account_state = 'active' and revoked_at is null and (key_expires_at is null or key_expires_at > moment)
$$;

-- What is left at a moment of an account's batch time: halved every five minutes, and nothing after eight hours or once
-- it is less than a millisecond, since a number too small for its type is an error.
create function recent_service(service_seconds double precision, service_at timestamptz, moment timestamptz)
returns double precision immutable parallel safe language sql as $$
    select case when service_seconds < 0.001 or moment - service_at > interval '8 hours' then 0
                else service_seconds * 0.5::float8 ^ greatest(extract(epoch from moment - service_at)::float8 / 300, 0)
           end
$$;

create table batch_key_state (
    key_id         text primary key,
    blocked_reason text not null check (blocked_reason in ('key_budget', 'reserved')),
    blocked_until  timestamptz not null
);

create table batch_reservations (
    worker_no  bigint not null,
    key_id     text not null,
    account_id text not null,
    cost_usd   numeric(24, 12) not null,
    primary key (worker_no, key_id)
) with (fillfactor = 50);
-- What an account's and a key's running requests may cost (batches.reserved).
create index batch_reservations_account on batch_reservations (account_id);

create table batch_model_state (
    model         text primary key,
    failures      integer not null default 0,
    rest_level    integer not null default 0,
    rest_until    timestamptz,
    rest_reason   text check (rest_reason in ('model_queued', 'model_paused')),
    room_reason   text check (room_reason in ('model_cap', 'yielding', 'no_route_up')),
    waiting_since timestamptz,
    alerted_at    timestamptz
) with (fillfactor = 50);

-- Why nothing of an open batch runs although requests of it wait; null while some run, or while nothing is in the way.
create function batch_blocked_reason(batch bigint, account text, key text, moment timestamptz, min_role text)
returns text stable parallel safe language sql as $$
    select case when w.running = 0 and w.queued > 0 then coalesce(
        (select s.blocked_reason from batch_user_state s where s.account_id = account and s.blocked_until > moment),
        (select s.blocked_reason from batch_key_state s
         where s.key_id = key and s.blocked_reason = 'key_budget' and s.blocked_until > moment),
        (select 'role' from accounts a
         where a.id = account and array_position(array['free', 'pro', 'internal', 'admin'], a.role)
                                  < array_position(array['free', 'pro', 'internal', 'admin'], min_role)),
        w.rest_reason,
        w.room_reason,
        (select 'account_cap' from batch_user_state s where s.account_id = account and s.at_cap))
    end
    from (
        select sum(q.running) as running, sum(q.queued) as queued,
               min(m.rest_reason) filter (where q.queued > 0 and m.rest_until > moment) as rest_reason,
               min(m.room_reason) filter (where q.queued > 0) as room_reason
        from batch_queues q left join batch_model_state m on m.model = q.model
        where q.batch_no = batch
    ) w
$$;

create table batch_model_limits (
    model           text primary key,
    max_concurrency integer check (max_concurrency >= 0),
    updated_at      timestamptz not null,
    updated_by      text not null
);

create table batch_interactive_load (
    process   text not null,
    model     text not null,
    in_flight integer not null check (in_flight >= 0),
    seen_at   timestamptz not null,
    primary key (process, model)
) with (fillfactor = 50);

create table provider_route_batch_policies (
    model_id      text not null,
    route_id      text not null,
    batch_allowed boolean not null,
    updated_at    timestamptz not null,
    updated_by    text not null,
    primary key (model_id, route_id)
);

create table batch_idempotency (
    account_id   text not null,
    key          text not null,
    request_hash bytea not null check (octet_length(request_hash) = 32),
    batch_id     text not null,
    created_at   timestamptz not null,
    forget_at    timestamptz,
    primary key (account_id, key)
);
-- The key of a batch (batches.hide_batch), and what may be forgotten (batches.forget_keys).
create index batch_idempotency_batch on batch_idempotency (batch_id);
create index batch_idempotency_forget on batch_idempotency (forget_at) where forget_at is not null;

create table batch_read_leases (
    id         bigint generated always as identity primary key,
    batch_no   bigint,
    file_id    text,
    expires_at timestamptz not null,
    check ((batch_no is null) <> (file_id is null))
);
-- Whether somebody still reads a batch or a file (batches.removable_batches, files.removable_files).
create index batch_read_leases_batch on batch_read_leases (batch_no) where batch_no is not null;
create index batch_read_leases_file on batch_read_leases (file_id) where file_id is not null;

-- Webhooks ------------------------------------------------------------------------------------------------------------

create table batch_webhooks (
    account_id       text primary key,
    url              text not null,
    secret           text not null,
    enabled          boolean not null default true,
    created_at       timestamptz not null,
    updated_at       timestamptz not null,
    timeouts_in_row  integer not null default 0,
    rest_level       integer not null default 0,
    rest_until       timestamptz,
    worker_no        bigint,
    busy_until       timestamptz
);

create table batch_webhook_events (
    no           bigint generated always as identity,
    id           text primary key,
    account_id   text not null,
    batch_id     text not null,
    type         text not null,
    created_at   timestamptz not null,
    state        text not null default 'pending' check (state in ('pending', 'delivered', 'failed')),
    attempts     integer not null default 0,
    next_at      timestamptz,
    delivered_at timestamptz,
    last_status  smallint,
    last_error   text,
    check ((state = 'pending') = (next_at is not null))
);
-- An account's events, newest first (delivery.list_events), and its next one (delivery.claim_event).
create index batch_webhook_events_account on batch_webhook_events (account_id, no);
create index batch_webhook_events_pending on batch_webhook_events (account_id, next_at, no) where state = 'pending';
-- What is old (delivery.prune_events).
create index batch_webhook_events_old on batch_webhook_events (created_at);

-- Request log ---------------------------------------------------------------------------------------------------------

create table api_logs (
    id               bigint generated always as identity,
    at               timestamptz not null,
    request_id       text,
    account_id       text not null,
    key_id           text not null,
    source           text not null check (source in ('interactive', 'batch')),
    target           text not null,
    model            text not null,
    route            text,
    status_code      smallint,
    error_code       text,
    input_tokens     integer,
    cached_tokens    integer,
    output_tokens    integer,
    reasoning_tokens integer,
    cost_usd         numeric(24, 12),
    first_token_ms   integer,
    total_ms         integer,
    batch_job_id     text,
    metadata         jsonb,
    primary key (at, id)
) partition by range (at);
create table api_logs_default partition of api_logs default;
-- Newest first, by batch or by account (records.list_requests).
create index api_logs_batch on api_logs (batch_job_id, at) where batch_job_id is not null;
create index api_logs_account on api_logs (account_id, at);

-- Every attempt of the worker is a request in the log, written by the statement that records the attempt.
create function batch_attempts_logged() returns trigger language plpgsql as $$
begin
    insert into api_logs
        (at, request_id, account_id, key_id, source, target, model, route, status_code, error_code, input_tokens,
         cached_tokens, output_tokens, reasoning_tokens, cost_usd, total_ms, batch_job_id, metadata)
    select a.finished_at, a.request_id, j.account_id, j.key_id, 'batch', j.target, a.model, a.route, a.status_code,
           a.error_code, a.input_tokens, a.cached_tokens, a.output_tokens, a.reasoning_tokens, a.cost_usd,
           (extract(epoch from a.finished_at - a.started_at) * 1000)::integer, j.id,
           jsonb_build_object('item', a.item_id, 'attempt', a.attempt, 'outcome', a.outcome)
    from fresh a join batch_jobs j on j.no = a.batch_no;
    return null;
end
$$;
create trigger batch_attempts_logged after insert on batch_attempts
referencing new table as fresh for each statement execute function batch_attempts_logged();
