-- Interactive requests: slots, what running ones may cost, and their rows in the request log.
-- Builds that know schema version 1 or newer may run beside it.

alter table accounts add column max_concurrency integer check (max_concurrency >= 0);

alter table api_logs
    add column attempts integer,
    add column streamed boolean;

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
