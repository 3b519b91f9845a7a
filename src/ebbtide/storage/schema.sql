-- The whole database, readable top to bottom. migrations/ builds the same thing step by step; a test holds the two equal.
--
-- Lock order, for every transaction that changes work: batch_user_state (by account_id), then batch_jobs (by no),
-- then batch_items. Whoever changes an item, its queue row or its batch's counters holds that batch's batch_jobs row.

-- Who may ------------------------------------------------------------------------------------------------------------

create table accounts (
    id         text primary key,
    name       text not null check (length(name) between 1 and 200),
    role       text not null check (role in ('free', 'pro', 'internal', 'admin')),
    state      text not null default 'active' check (state in ('active', 'suspended', 'deleted')),
    created_at timestamptz not null,
    daily_quota_usd   numeric(24, 12) check (daily_quota_usd >= 0),    -- null: its role's
    monthly_quota_usd numeric(24, 12) check (monthly_quota_usd >= 0),
    max_concurrency   integer check (max_concurrency >= 0),            -- interactive requests; null: its role's, 0: any
    password_hash text,                          -- argon2id; null: no sign-in by password
    batch_max_concurrency integer check (batch_max_concurrency >= 0),  -- batch requests; null: its role's, 0: any
    email      text check (length(email) <= 254)  -- as an administrator or the identity provider gave it
);
-- A name is taken while its account lives (accounts.add_account).
create unique index accounts_name on accounts (name) where state <> 'deleted';
-- Living accounts, oldest first (accounts.page_accounts).
create index accounts_created on accounts (created_at, id) where state <> 'deleted';

create table api_keys (
    id           text primary key,
    account_id   text not null references accounts (id),
    name         text not null default '',
    prefix       text not null,                  -- what is shown: enough to recognise a key, never enough to use it
    hash         bytea not null check (octet_length(hash) = 32),
    created_at   timestamptz not null,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz,
    daily_budget_usd   numeric(24, 12) check (daily_budget_usd >= 0),  -- null: none
    monthly_budget_usd numeric(24, 12) check (monthly_budget_usd >= 0),
    managed      boolean not null default false  -- the sessions' own: nobody knows its secret
);
-- Signing in with a key (accounts.find_key).
create unique index api_keys_hash on api_keys (hash);
-- An account's keys (accounts.list_keys).
create index api_keys_account on api_keys (account_id, created_at);

-- The one key that an account's sessions act with (accounts.console_key).
create unique index api_keys_managed on api_keys (account_id) where managed and revoked_at is null;

create table sessions (
    hash       bytea primary key check (octet_length(hash) = 32),  -- of the cookie's secret
    account_id text not null references accounts (id) on delete cascade,
    key_id     text not null references api_keys (id) on delete cascade,
    created_at timestamptz not null,
    used_at    timestamptz not null,
    expires_at timestamptz not null
);
-- Ending an account's sessions (accounts.end_sessions).
create index sessions_account on sessions (account_id);
-- What is over (accounts.drop_sessions).
create index sessions_expiring on sessions (expires_at);

create table sign_in_attempts (
    subject text primary key,                    -- a name (as its hash) or a client address
    tries   integer not null check (tries > 0),
    until   timestamptz not null
);
-- What counts no longer (accounts.drop_attempts).
create index sign_in_attempts_until on sign_in_attempts (until);

create table oidc_identities (
    issuer     text not null,
    subject    text not null,
    account_id text not null references accounts (id) on delete cascade,
    created_at timestamptz not null,
    primary key (issuer, subject)
);
-- Removing an account for good takes its identities along.
create index oidc_identities_account on oidc_identities (account_id);

-- Accounts that are being removed for good, or were. The account itself is 'deleted' from the moment that is asked for.
create table account_purges (
    account_id   text primary key,
    asked_at     timestamptz not null,
    asked_by     text not null,
    waits_for    text[] not null default '{}',   -- leases that keep something, as of the last look
    batches_left bigint not null default 0,
    files_left   bigint not null default 0,
    rows_removed bigint not null default 0,
    swept_to     timestamptz,                    -- stored contents of requests before it are gone
    looked_at    timestamptz,
    finished_at  timestamptz
);
-- What is to be done (accounts.open_purges).
create index account_purges_open on account_purges (looked_at nulls first) where finished_at is null;

create table setup_code (
    singleton  boolean primary key default true check (singleton),
    hash       bytea not null check (octet_length(hash) = 32),
    created_at timestamptz not null
);

-- What was charged ----------------------------------------------------------------------------------------------------

create table spend_days (
    account_id    text not null,
    key_id        text not null,
    day           date not null,                 -- UTC
    source        text not null check (source in ('interactive', 'batch')),
    requests      bigint not null default 0,     -- attempts with a known bill
    input_tokens  bigint not null default 0,
    output_tokens bigint not null default 0,
    cost_usd      numeric(24, 12) not null default 0,
    primary key (account_id, day, key_id, source)
);

-- Bytes --------------------------------------------------------------------------------------------------------------

create table batch_files (
    no         bigint generated always as identity,
    id         text primary key,
    account_id text not null,
    batch_id   text,                             -- the batch a result file belongs to
    purpose    text not null check (purpose in ('batch', 'batch_output', 'batch_direct')),
    state      text not null check (state in ('writing', 'stored')),
    filename   text not null,
    bytes      bigint not null default 0 check (bytes >= 0),
    sha256     bytea check (octet_length(sha256) = 32),
    created_at timestamptz not null,
    expires_at timestamptz,
    deleted_at timestamptz,
    source_id  text,                             -- the file that this one is a batch's own copy of
    check ((state = 'stored') = (sha256 is not null)),
    check ((purpose = 'batch_output') = (batch_id is not null)),
    constraint batch_files_source check (source_id is null or purpose = 'batch')
);
-- An account's files, newest first, and what they weigh (files.list_newest, files.list_oldest, files.stored_bytes).
create index batch_files_account on batch_files (account_id, no) where deleted_at is null and purpose <> 'batch_direct';
-- The copies of a file (files.delete_file).
create index batch_files_copies on batch_files (source_id) where source_id is not null;
-- The files of one batch (files.delete_batch_files, files.drop_unfinished).
create index batch_files_batch on batch_files (batch_id) where batch_id is not null;
-- What is due for removal (files.expire_files, files.removable_files).
create index batch_files_expiring on batch_files (expires_at) where deleted_at is null and expires_at is not null;
create index batch_files_deleted on batch_files (deleted_at) where deleted_at is not null;

create table batch_file_chunks (
    file_id    text not null,
    chunk      integer not null,
    raw_offset bigint not null,                  -- bytes before this chunk, uncompressed
    raw_length integer not null,
    data       bytea not null,                   -- zstd
    primary key (file_id, chunk)
);
alter table batch_file_chunks alter column data set storage external;
-- A range of a file (files.read_chunks).
create index batch_file_chunks_offset on batch_file_chunks (file_id, raw_offset);

-- An upload that comes in parts, each under the secret in its URL, to any process.
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

-- Work ---------------------------------------------------------------------------------------------------------------

-- The public status of a batch. Nothing else computes one.
create function batch_status(phase text, closing text, in_progress_at timestamptz, expired integer)
returns text immutable parallel safe language sql as $$
    select case
        when phase = 'sealed' and closing = 'expired' and expired = 0 then 'completed'
        when phase = 'sealed' then coalesce(closing, 'completed')
        when closing = 'cancelled' then 'cancelling'
        when phase = 'sealing' then 'finalizing'
        when in_progress_at is null then 'validating'
        else 'in_progress'
    end
$$;

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

create table batch_jobs (
    no                    bigint generated always as identity,
    id                    text primary key,
    account_id            text not null,
    key_id                text not null,
    api_surface           text not null check (api_surface in ('openai_inline', 'openai_file', 'anthropic', 'gemini')),
    target                text not null check (target in ('chat', 'embeddings', 'responses', 'messages', 'gemini',
                                                            'gemini_embed')),
    schema_version        integer not null default 1,
    input_id              text not null,         -- the file that holds the request lines
    output_id             text,                  -- set when sealed, null where a file would be empty
    error_id              text,
    metadata              jsonb,
    completion_window     text not null,
    retention_days        integer not null,

    -- validating: a file is being checked. open: items run. sealing: every item is final, files are written. sealed.
    phase                 text not null check (phase in ('validating', 'open', 'sealing', 'sealed')),
    closing               text check (closing in ('cancelled', 'expired', 'failed')),  -- why nothing more starts
    status                text generated always as (batch_status(phase, closing, in_progress_at, expired)) stored,
    error_code            text,                  -- why the whole batch failed
    error_message         text,
    errors                jsonb,                 -- what was wrong with its file, line by line
    owner_no              bigint,                -- the worker that validates or seals it

    created_at            timestamptz not null,
    in_progress_at        timestamptz,
    expires_at            timestamptz,           -- null: no window
    closing_at            timestamptz,
    finalizing_at         timestamptz,
    sealed_at             timestamptz,
    results_expires_at    timestamptz,
    deleted_at            timestamptz,

    total                 integer not null default 0 check (total >= 0),
    completed             integer not null default 0 check (completed >= 0),
    failed                integer not null default 0 check (failed >= 0),
    cancelled             integer not null default 0 check (cancelled >= 0),
    expired               integer not null default 0 check (expired >= 0),
    input_tokens          bigint not null default 0,
    cached_tokens         bigint not null default 0,
    output_tokens         bigint not null default 0,
    reasoning_tokens      bigint not null default 0,
    cost_usd              numeric(24, 12) not null default 0,
    cost_unknown_attempts integer not null default 0,
    result_bytes          bigint not null default 0,
    version               bigint not null default 1,       -- raised by every change
    results_full          boolean not null default false,  -- BATCH_MAX_RESULTS_MB_PER_BATCH is reached
    name                  text,                            -- given in the console
    model                 text,                            -- where all its requests name one
    output_seconds        integer check (output_seconds > 0),  -- how long its result files are wanted at most
    anthropic_version     text,                            -- of a batch of Messages requests
    priority              bigint not null default 0,       -- among its account's: the higher comes first
    from_file             boolean not null default false,  -- of surface gemini: a file holds its requests

    check (completed + failed + cancelled + expired <= total),
    check (phase not in ('sealing', 'sealed') or completed + failed + cancelled + expired = total),
    check ((phase = 'sealed') = (sealed_at is not null)),
    check ((phase = 'sealed') = (results_expires_at is not null)),
    check ((closing is null) = (closing_at is null)),
    check (closing is distinct from 'failed' or error_code is not null or errors is not null),
    check (phase = 'sealed' or (output_id is null and error_id is null)),
    constraint batch_jobs_anthropic_version check (target = 'messages' or anthropic_version is null)
) with (fillfactor = 80);
create unique index batch_jobs_no on batch_jobs (no);
-- An account's batches, newest first (batches.list_batches).
create index batch_jobs_account on batch_jobs (account_id, no) where deleted_at is null;
-- What is unfinished: limits at creation, and the worker's duties (validate, close, expire, seal).
create index batch_jobs_unfinished on batch_jobs (phase, account_id) where phase <> 'sealed';
-- Retention and removal (batches.retire_batches, batches.removable_batches).
create index batch_jobs_retention on batch_jobs (results_expires_at) where phase = 'sealed' and deleted_at is null;
create index batch_jobs_deleted on batch_jobs (deleted_at) where deleted_at is not null;
-- Whether a file's bytes are still needed (files.removable_files).
create index batch_jobs_input on batch_jobs (input_id);

-- Narrow on purpose: bodies stay in batch_file_chunks, answers in batch_result_segments. Ids ascend in submission order.
create table batch_items (
    batch_no       bigint not null,
    id             bigint generated by default as identity,
    model          text not null,                -- canonical, resolved when the batch was created
    state          text not null default 'queued'
                   check (state in ('queued', 'running', 'completed', 'failed', 'cancelled', 'expired')),
    attempts       integer not null default 0,   -- tries that counted
    claim_epoch    integer not null default 0,   -- raised by every claim; a write under an older one changes nothing
    ready_at       timestamptz not null,
    worker_no      bigint,
    custom_id      text not null,
    chunk          integer not null,             -- the request line: chunk of the input file, offset in it, length
    line_offset    integer not null,
    line_length    integer not null,
    segment        bigint,                       -- the answer: segment, offset in it, length
    answer_offset  integer,
    answer_length  integer,
    request_id     text,
    error_code     text,                         -- the last error, kept while a retry waits
    error_message  text,
    error_status   smallint,
    max_tokens     integer,                      -- the most output the request asks for, where it says
    primary key (batch_no, id),
    check ((state = 'running') = (worker_no is not null)),
    check ((state = 'completed') = (segment is not null)),
    check (state <> 'failed' or error_code is not null)
) with (
    fillfactor = 75,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000
);
-- Claiming, and sweeping what will not start (batches.claim_items, batches.cancel, batches.give_up).
create index batch_items_queued on batch_items (batch_no, model, ready_at, id) where state = 'queued';
-- What a worker holds: take-over, hand-back, whether a batch may be deleted.
create index batch_items_running on batch_items (worker_no, batch_no) where state = 'running';

-- One row for each model of an unfinished batch, so that no claim and no figure ever counts items.
create table batch_queues (
    batch_no      bigint not null,
    model         text not null,
    queued        integer not null check (queued >= 0),
    running       integer not null default 0 check (running >= 0),
    next_ready_at timestamptz not null,          -- no queued item of it is ready before
    primary key (batch_no, model)
) with (fillfactor = 50);
-- Candidates of a claim (batches.list_candidates).
create index batch_queues_waiting on batch_queues (model, next_ready_at) where queued > 0;

create table batch_attempts (
    batch_no         bigint not null,
    item_id          bigint not null,
    claim_epoch      integer not null,
    attempt          integer not null,           -- 1 for the first; a queued deployment's answer repeats the number
    worker_no        bigint not null,
    model            text not null,
    route            text,                       -- null: no route was chosen
    outcome          text not null check (outcome in ('completed', 'failed', 'retried', 'queued', 'lost')),
    started_at       timestamptz,
    finished_at      timestamptz not null,
    status_code      smallint,
    error_code       text,
    request_id       text,
    input_tokens     integer,
    cached_tokens    integer,
    output_tokens    integer,
    reasoning_tokens integer,
    cost_usd         numeric(24, 12),            -- null: unknown
    primary key (batch_no, item_id, claim_epoch)
);

-- Answers, many in one zstd frame; written once by the settle that recorded them.
create table batch_result_segments (
    batch_no bigint not null,
    id       bigint generated always as identity,
    data     bytea not null,
    primary key (batch_no, id)
);
alter table batch_result_segments alter column data set storage external;

-- Workers ------------------------------------------------------------------------------------------------------------

create table workers (
    no             bigint generated always as identity primary key,
    host           text not null,
    pid            integer not null,
    version        text not null,
    schema_version integer not null,
    surfaces       text[] not null,
    targets        text[] not null,
    started_at     timestamptz not null default now(),
    lease_until    timestamptz not null,         -- database clock; covers everything the worker holds
    ended_at       timestamptz                   -- stopped cleanly, or taken over
);
-- Who lives, and who lapsed (batches.lapsed_workers).
create index workers_living on workers (lease_until) where ended_at is null;

-- A slot lets one request of an account be in flight on a model. Workers hold them; a cap is the sum over all of them.
create table batch_slots (
    model      text not null,
    account_id text not null,
    worker_no  bigint not null,
    slots      integer not null check (slots >= 0),
    wanted     integer not null default 0,       -- asked for and not granted
    asked_at   timestamptz not null,
    primary key (model, account_id, worker_no)
) with (fillfactor = 50);

-- The row every claim and settle of an account locks first.
create table batch_user_state (
    account_id      text primary key,
    service_seconds double precision not null default 0,  -- recent batch time, halved every five minutes
    service_at      timestamptz not null,
    blocked_reason  text check (blocked_reason in ('daily_quota', 'monthly_quota')),
    blocked_until   timestamptz,
    at_cap          boolean not null default false  -- its role's cap keeps it from more slots
) with (fillfactor = 50);

-- Rules ---------------------------------------------------------------------------------------------------------------

-- Every change of a batch raises its version; the one that seals it queues its webhook event, and its idempotency key is
-- forgotten a day later.
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
    opened_at     timestamptz,                   -- null: its circuit is closed
    failures      integer not null,              -- in a row
    opened        integer not null,              -- how often, since the process began
    closed        integer not null,
    in_flight     integer not null,
    most          integer,                       -- calls that may run at once; null: any number
    keys          integer not null,
    keys_resting  integer not null,
    last_error    text,
    seen_at       timestamptz not null,
    primary key (process, model, route)
) with (fillfactor = 50);

create table batch_idempotency (
    account_id   text not null,
    key          text not null,
    request_hash bytea not null check (octet_length(request_hash) = 32),
    batch_id     text not null,
    created_at   timestamptz not null,
    forget_at    timestamptz,
    primary key (account_id, key)
);
-- The key of a batch (batches.bury_keys), and what may be forgotten (batches.forget_keys).
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
-- An account's events, newest first (delivery.list_events), and its next one (delivery.claim_events).
create index batch_webhook_events_account on batch_webhook_events (account_id, no);
create index batch_webhook_events_pending on batch_webhook_events (account_id, next_at, no) where state = 'pending';
-- What is old (delivery.prune_events).
create index batch_webhook_events_old on batch_webhook_events (created_at);

-- Request log ---------------------------------------------------------------------------------------------------------

-- Whether a row of the request log counts as an error. Nothing else decides that.
create function request_failed(status_code smallint, error_code text)
returns boolean immutable parallel safe language sql as $$
    select error_code is not null or coalesce(status_code, 0) >= 400
$$;

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
    attempts         integer,                    -- upstream calls made, null where it is not known
    streamed         boolean,
    primary key (at, id)
) partition by range (at);
create table api_logs_default partition of api_logs default;
-- Newest first, by batch or by account: for operators' own queries.
create index api_logs_batch on api_logs (batch_job_id, at) where batch_job_id is not null;
create index api_logs_account on api_logs (account_id, at);
-- Newest first, of one source (records.list_requests).
create index api_logs_source on api_logs (source, at, id);
-- Newest first, of one model (records.list_requests).
create index api_logs_model on api_logs (model, at, id);
-- What went wrong, newest first (records.list_requests).
create index api_logs_failed on api_logs (at, id) where request_failed(status_code, error_code);

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

-- What callers and models said, kept while DB_STORE_FULL_CONTENT is on; zstd.
create table api_log_contents (
    at             timestamptz not null,         -- both as in api_logs
    request_id     text not null,
    request        bytea not null,
    answer         bytea not null,
    request_bytes  bigint not null,              -- of the whole, of which what is stored may be the beginning
    answer_bytes   bigint not null,
    primary key (at, request_id)
) partition by range (at);
create table api_log_contents_default partition of api_log_contents default;

-- The log in figures. Every statement that writes log rows adds rows here, never changes one, so that writers do not wait
-- for each other; a duty folds them into one for a minute (grain 1), later one for an hour (2) and one for a day (3).
create table api_log_counts (
    at               timestamptz not null,       -- the beginning of the minute, the hour or the UTC day
    grain            smallint not null default 0 check (grain between 0 and 3),
    source           text not null,
    model            text not null,
    account_id       text not null,
    requests         bigint not null,
    errors           bigint not null,
    input_tokens     bigint not null,
    cached_tokens    bigint not null,
    output_tokens    bigint not null,
    reasoning_tokens bigint not null,
    cost_usd         numeric(24, 12) not null,
    cost_unknown     bigint not null
);
-- The bars of a window (records.count_requests), and what is old (records.prune_counts).
create index api_log_counts_at on api_log_counts (at);
-- An account's use (records.usage_by_model).
create index api_log_counts_account on api_log_counts (account_id, at);
-- What is to be folded (records.fold_counts).
create index api_log_counts_loose on api_log_counts (at) where grain = 0;
create index api_log_counts_minutes on api_log_counts (at) where grain = 1;
create index api_log_counts_hours on api_log_counts (at) where grain = 2;

create function api_logs_counted() returns trigger language plpgsql as $$
begin
    insert into api_log_counts
        (at, source, model, account_id, requests, errors, input_tokens, cached_tokens, output_tokens, reasoning_tokens,
         cost_usd, cost_unknown)
    select date_bin('1 minute', f.at, 'epoch'), f.source, f.model, f.account_id, count(*),
           count(*) filter (where request_failed(f.status_code, f.error_code)), coalesce(sum(f.input_tokens), 0),
           coalesce(sum(f.cached_tokens), 0), coalesce(sum(f.output_tokens), 0), coalesce(sum(f.reasoning_tokens), 0),
           coalesce(sum(f.cost_usd), 0), count(*) filter (where f.cost_usd is null)
    from fresh f group by 1, 2, 3, 4;
    return null;
end
$$;
create trigger api_logs_counted after insert on api_logs
referencing new table as fresh for each statement execute function api_logs_counted();

-- The folded figures (grains 2 and 3) over all accounts: what bars of hours and days are read from. Triggers keep them
-- equal to the sums of api_log_counts in each transaction.
create table api_log_totals (
    at               timestamptz not null,       -- the beginning of the hour or the UTC day
    source           text not null,
    model            text not null,
    requests         bigint not null,
    errors           bigint not null,
    input_tokens     bigint not null,
    cached_tokens    bigint not null,
    output_tokens    bigint not null,
    reasoning_tokens bigint not null,
    cost_usd         numeric(24, 12) not null,
    cost_unknown     bigint not null,
    primary key (at, source, model)
);

create function api_log_counts_totalled() returns trigger language plpgsql as $$
declare
    sign integer := case tg_op when 'INSERT' then 1 else -1 end;
begin
    insert into api_log_totals as t
        (at, source, model, requests, errors, input_tokens, cached_tokens, output_tokens, reasoning_tokens, cost_usd,
         cost_unknown)
    select at, source, model, sign * sum(requests), sign * sum(errors), sign * sum(input_tokens),
           sign * sum(cached_tokens), sign * sum(output_tokens), sign * sum(reasoning_tokens), sign * sum(cost_usd),
           sign * sum(cost_unknown)
    from moved where grain >= 2 group by 1, 2, 3 order by 1, 2, 3
    on conflict (at, source, model) do update
    set requests = t.requests + excluded.requests, errors = t.errors + excluded.errors,
        input_tokens = t.input_tokens + excluded.input_tokens, cached_tokens = t.cached_tokens + excluded.cached_tokens,
        output_tokens = t.output_tokens + excluded.output_tokens,
        reasoning_tokens = t.reasoning_tokens + excluded.reasoning_tokens, cost_usd = t.cost_usd + excluded.cost_usd,
        cost_unknown = t.cost_unknown + excluded.cost_unknown;
    if tg_op = 'DELETE' then
        delete from api_log_totals t
        using (select distinct at, source, model from moved where grain >= 2) gone
        where (t.at, t.source, t.model) = (gone.at, gone.source, gone.model) and t.requests = 0;
    end if;
    return null;
end
$$;
create trigger api_log_counts_totalled after insert on api_log_counts
referencing new table as moved for each statement execute function api_log_counts_totalled();
create trigger api_log_counts_untotalled after delete on api_log_counts
referencing old table as moved for each statement execute function api_log_counts_totalled();

-- Make one day's partition (UTC) of a log, unless it is there; true when it was made. A day of which the default
-- partition holds rows stays there: nothing is moved. The table is made apart and then attached, which takes no lock
-- that writers of other days wait for.
create function add_log_day(log text, day date) returns boolean language plpgsql as $$
declare
    part text := log || '_' || to_char(day, 'YYYYMMDD');
    lower timestamptz := day::timestamp at time zone 'UTC';
    upper timestamptz := (day + 1)::timestamp at time zone 'UTC';
    held boolean;
begin
    if to_regclass(part) is not null then
        return false;
    end if;
    execute format('select exists (select from %I where at >= $1 and at < $2)', log || '_default')
        into held using lower, upper;
    if held then
        return false;
    end if;
    execute format('create table %I (like %I including defaults including constraints including indexes)', part, log);
    execute format('alter table %I attach partition %I for values from (%L) to (%L)', log, part, lower, upper);
    return true;
exception when check_violation then  -- a row came meanwhile
    return false;
end
$$;

-- Drop the oldest day's partition of a log that lies wholly before a day; false when there is none.
create function drop_log_day(log text, before date) returns boolean language plpgsql as $$
declare
    part text;
begin
    select c.relname into part from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = log::regclass and c.relname ~ ('^' || log || '_\d{8}$')
      and right(c.relname, 8) < to_char(before, 'YYYYMMDD')
    order by c.relname limit 1;
    if part is null then
        return false;
    end if;
    execute format('drop table %I', part);
    return true;
end
$$;

-- Interactive requests ------------------------------------------------------------------------------------------------

-- A slot lets one interactive request of an account run. Processes hold them; a cap is the sum over all that live.
create table interactive_slots (
    account_id  text not null,
    process     text not null,
    slots       integer not null check (slots >= 0),
    asked_at    timestamptz,                     -- when the process last asked for more and got none
    lease_until timestamptz not null,            -- database clock
    primary key (account_id, process)
) with (fillfactor = 50);
-- What a process holds (proxy.keep_slots, proxy.end_slots).
create index interactive_slots_process on interactive_slots (process);

-- What a process's interactive requests may cost, or have cost and is not in spend_days yet; for keys that have limits.
create table interactive_reservations (
    process    text not null,
    key_id     text not null,
    account_id text not null,
    cost_usd   numeric(24, 12) not null,
    seen_at    timestamptz not null,
    primary key (process, key_id)
) with (fillfactor = 50);
-- What an account's requests may cost (proxy.reserved_elsewhere, batches.reserved).
create index interactive_reservations_account on interactive_reservations (account_id);

-- The last group of log rows that each process has written, so that one whose commit went unanswered is not written twice.
create table request_log_groups (
    process    text primary key,
    no         bigint not null,
    written_at timestamptz not null
) with (fillfactor = 50);

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
-- By whom, what, to which thing, and when, newest first (records.list_audit).
create index audit_log_actor on audit_log (actor collate "C", id);
create index audit_log_action on audit_log (action collate "C", id);
create index audit_log_object on audit_log (object, id);
create index audit_log_at on audit_log (at, id);
