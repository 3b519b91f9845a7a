-- The upkeep of the request log: a partition for each day, and figures folded as they grow old.

-- name: try_keeping
-- Be the one process that keeps the log, until the transaction ends.
select pg_try_advisory_xact_lock($1);

-- name: limit_waiting
-- How long this transaction may wait for a table, and others behind it.
select set_config('lock_timeout', $1, true);

-- name: add_log_day
-- Make the partition of a day; true when it was made.
select add_log_day($1, $2);

-- name: drop_log_day
-- Drop the oldest partition that lies before a day; false when there is none.
select drop_log_day($1, $2);

-- name: missing_days
-- Days between two, both included, of which a log has no partition.
select d.day::date as day
from generate_series($2::date, $3::date, interval '1 day') d(day)
where to_regclass($1 || '_' || to_char(d.day, 'YYYYMMDD')) is null
order by 1;

-- name: prune_rows
-- Delete rows of the default partition that are older than a moment, at most $2.
delete from api_logs_default
where (at, id) in (select at, id from api_logs_default where at < $1 order by at, id limit $2);

-- name: prune_contents
-- The same for stored contents.
delete from api_log_contents_default
where (at, request_id) in (
    select at, request_id from api_log_contents_default where at < $1 order by at, request_id limit $2);

-- name: prune_counts
-- Delete figures that are older than a moment, at most $2.
delete from api_log_counts where ctid = any(array(select ctid from api_log_counts where at < $1 limit $2));

-- name: fold_counts
-- Fold figures of a grain below $1 from before $2 into one row for each stretch of length $3; at most $4 at a time.
with gone as (
    delete from api_log_counts
    where ctid = any(array(select ctid from api_log_counts where grain < $1 and at < $2 order by at limit $4))
      and grain < $1
    returning *
), folded as (
    insert into api_log_counts
        (at, grain, source, model, account_id, requests, errors, input_tokens, cached_tokens, output_tokens,
         reasoning_tokens, cost_usd, cost_unknown)
    select date_bin($3, at, 'epoch'), $1, source, model, account_id, sum(requests), sum(errors), sum(input_tokens),
           sum(cached_tokens), sum(output_tokens), sum(reasoning_tokens), sum(cost_usd), sum(cost_unknown)
    from gone group by 1, 3, 4, 5
)
select count(*) from gone;
