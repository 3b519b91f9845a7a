-- Everyone's batches and the workers, as administrators see them. Sums of counters on batch_jobs; items are not counted.

-- name: list_jobs
-- A page of everyone's batches by id and name, newest first, after the batch $1; by account, status, target, model, and
-- by a part of the name or the id.
select id, coalesce(name, metadata->>'name') as name from batch_jobs
where deleted_at is null
  and ($1::text is null or no < (select no from batch_jobs where id = $1))
  and ($2::text is null or account_id = $2) and ($3::text is null or status = $3)
  and ($4::text is null or target = $4) and ($5::text is null or model = $5)
  and ($6::text is null or position(lower($6) in id) > 0
       or position(lower($6) in lower(coalesce(name, metadata->>'name'))) > 0)
order by no desc limit $7;

-- name: knows_job
-- Whether there is, or was, such a batch: what makes a cursor good.
select exists (select from batch_jobs where id = $1);

-- name: has_batches
-- Whether an account has a batch.
select exists (select from batch_jobs where account_id = $1 and deleted_at is null);

-- name: summarise
-- Sums over the stored batches: of all (account null), and of the accounts whose batches cost most, at most $1.
select account_id, count(*) as batches, sum(total) as total, sum(completed) as succeeded,
       sum(failed + expired) as failed, sum(expired) as expired, sum(cancelled) as cancelled,
       sum(total - completed - failed - expired - cancelled) as not_finished,
       coalesce(sum(cost_usd), 0) as cost_usd, sum(cost_unknown_attempts) as cost_unknown_attempts,
       sum(input_tokens)::bigint as input_tokens, sum(cached_tokens)::bigint as cached_tokens,
       sum(output_tokens)::bigint as output_tokens,
       count(*) filter (where cached_tokens is null) as cache_unrecorded_batches
from batch_jobs where deleted_at is null
group by grouping sets ((), (account_id))
order by grouping(account_id) desc, cost_usd desc, account_id limit $1 + 1;

-- name: list_workers
-- The workers that have not ended, oldest first, after the number $1, with the slots each holds and what it has claimed.
select w.no, w.host, w.pid, w.version, w.schema_version, w.surfaces, w.targets, w.started_at, w.lease_until,
       w.lease_until > now() as alive,
       (select coalesce(sum(s.slots), 0)::int from batch_slots s where s.worker_no = w.no) as slots,
       (select count(*)::int from batch_items i where i.worker_no = w.no and i.state = 'running') as running
from workers w where w.ended_at is null and w.no > $1 order by w.no limit $2;
