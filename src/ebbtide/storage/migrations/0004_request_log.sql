-- The request log by day, in figures, and with content.
-- Builds that know schema version 2 or newer may run beside it.
--
-- No row is moved or rewritten: what the log holds stays in its default partition until it is old. The two new indexes
-- are built over those rows, about a second for a million of them.

-- Whether a row of the request log counts as an error. Nothing else decides that.
create function request_failed(status_code smallint, error_code text)
returns boolean immutable parallel safe language sql as $$
    select error_code is not null or coalesce(status_code, 0) >= 400
$$;

-- Newest first, of one source (records.list_requests).
create index api_logs_source on api_logs (source, at, id);
-- What went wrong, newest first (records.list_requests).
create index api_logs_failed on api_logs (at, id) where request_failed(status_code, error_code);

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
-- for each other; a duty folds them into one for a minute (grain 1), later one for an hour (grain 2).
create table api_log_counts (
    at               timestamptz not null,       -- the beginning of the minute or the hour
    grain            smallint not null default 0 check (grain between 0 and 2),
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
