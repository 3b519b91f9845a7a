-- name: cancel_batch
-- Stop starting a batch's requests. One whose file is still being checked ends here, with nothing run.
update batch_jobs
set closing = 'cancelled', closing_at = $2,
    phase = case phase when 'validating' then 'sealed' else phase end,
    sealed_at = case phase when 'validating' then $2::timestamptz end,
    results_expires_at = case phase when 'validating' then $2::timestamptz + make_interval(days => retention_days) end,
    owner_no = null
where id = $1 and deleted_at is null and closing is null and phase in ('validating', 'open');

-- name: fail_batch
-- Stop a batch whose creator may no longer act.
update batch_jobs set closing = 'failed', closing_at = $2, error_code = $3, error_message = $4
where no = $1 and phase = 'open' and closing is null and deleted_at is null;

-- name: expire_batches
-- Stop batches whose window has closed.
update batch_jobs set closing = 'expired', closing_at = $1
where no in (
    select no from batch_jobs
    where phase = 'open' and closing is null and deleted_at is null and expires_at <= $1
      and api_surface = any($2) and target = any($3) and schema_version <= $4
    order by no limit 100 for update skip locked)
returning no;

-- name: closing_batches
-- Open batches that start nothing more and still have items waiting or none left at all.
select j.no from batch_jobs j
where j.phase = 'open' and (j.closing is not null or j.results_full) and j.deleted_at is null
  and j.api_surface = any($1) and j.target = any($2) and j.schema_version <= $3
  and (exists (select from batch_queues q where q.batch_no = j.no and q.queued > 0)
       or j.completed + j.failed + j.cancelled + j.expired = j.total)
order by j.no limit 100;

-- name: lock_closing
-- One batch that is being closed.
select coalesce(closing, 'full') from batch_jobs
where no = $1 and phase = 'open' and (closing is not null or results_full) for no key update;

-- The steps below pick rows by their place (ctid) while the batch is locked: whatever statistics a young table has, the
-- plan then never looks through the batch once for each row.

-- name: cancel
-- Waiting items of a cancelled batch, a bounded number at a time.
update batch_items set state = 'cancelled', error_code = null, error_message = null, error_status = null
where ctid = any (array(
    select ctid from batch_items where batch_no = $1 and state = 'queued' limit $2)) and state = 'queued'
returning model, state;

-- name: expire
-- Waiting items of a batch whose window closed, those that were never tried.
update batch_items set state = 'expired', error_code = null, error_message = null, error_status = null
where ctid = any (array(
    select ctid from batch_items where batch_no = $1 and state = 'queued' and (attempts = 0 or error_code is null) limit $2)) and state = 'queued'
returning model, state;

-- name: run_out
-- Waiting items of a batch whose window closed between two tries: each ends with its last error.
update batch_items set state = 'failed'
where ctid = any (array(
    select ctid from batch_items where batch_no = $1 and state = 'queued' and attempts > 0 and error_code is not null limit $2)) and state = 'queued'
returning model, state;

-- name: give_up
-- Waiting items of a batch that failed or is full: one that was tried before ends with its last error.
update batch_items
set state = 'failed',
    error_code = case when attempts > 0 and error_code is not null then error_code else $3 end,
    error_message = case when attempts > 0 and error_code is not null then error_message else $4 end,
    error_status = case when attempts > 0 and error_code is not null then error_status end
where ctid = any (array(
    select ctid from batch_items where batch_no = $1 and state = 'queued' limit $2)) and state = 'queued'
returning model, state;

-- name: count_closed
-- Add what a closing step ended to the batch's counters.
update batch_jobs
set cancelled = cancelled + $2, expired = expired + $3, failed = failed + $4 where no = $1;

-- name: count_unqueued
-- Take what a closing step ended out of the queues.
update batch_queues q set queued = q.queued - d.ended
from unnest($2::text[], $3::int[]) as d(model, ended)
where q.batch_no = $1 and q.model = d.model;

-- name: lock_batch
-- One visible batch, locked.
select no, account_id, input_id, phase from batch_jobs where id = $1 and deleted_at is null for no key update;

-- name: delete_batch
-- Hide a batch at once; its rows go in bounded steps.
update batch_jobs set deleted_at = $2 where no = $1 and deleted_at is null;

-- name: retire_batches
-- Batches whose retention is over.
select no, id, input_id from batch_jobs
where phase = 'sealed' and deleted_at is null and results_expires_at <= $1
  and api_surface = any($3) and target = any($4) and schema_version <= $5
order by results_expires_at limit $2 for update skip locked;

-- name: removable_batches
-- Hidden batches that nobody reads; those of an account that is being removed go with it (see removal.sql).
select no from batch_jobs j
where deleted_at <= $1 and api_surface = any($3) and target = any($4) and schema_version <= $5
  and not exists (select from batch_read_leases l where l.batch_no = j.no and l.expires_at > now())
  and not exists (select from account_purges p where p.account_id = j.account_id and p.finished_at is null)
order by deleted_at limit $2;

-- name: purge_items
-- Remove some items of a deleted batch.
delete from batch_items where ctid = any (array(select ctid from batch_items where batch_no = $1 limit $2));

-- name: purge_attempts
-- Remove some attempts of a deleted batch.
delete from batch_attempts where ctid = any (array(select ctid from batch_attempts where batch_no = $1 limit $2));

-- name: purge_segments
-- Remove some answers of a deleted batch.
delete from batch_result_segments
where ctid = any (array(select ctid from batch_result_segments where batch_no = $1 limit $2));

-- name: purge_queues
-- Remove the queue rows of a deleted batch.
delete from batch_queues where batch_no = $1;

-- name: purge_batch
-- Remove the row of a batch of which nothing else is left.
delete from batch_jobs where no = $1;

-- name: claim_sealing
-- Take the oldest batch of $5 to $6 bytes whose items are all final and which no living worker is sealing; one that
-- broke here before, and so is this worker's already, comes last.
update batch_jobs set owner_no = $1
where no = (
    select no from batch_jobs j
    where phase = 'sealing' and deleted_at is null and result_bytes between $5 and $6
      and api_surface = any($2) and target = any($3) and schema_version <= $4
      and not exists (select from workers w
                      where w.no = j.owner_no and w.no <> $1 and w.ended_at is null and w.lease_until > now())
    order by coalesce(owner_no = $1, false), no limit 1 for update skip locked)
returning id;

-- name: seal
-- Publish a batch's result files and its final status, if this worker is still the one that seals it; when they go.
update batch_jobs
set phase = 'sealed', owner_no = null, output_id = $3, error_id = $4, sealed_at = $5,
    results_expires_at = $5::timestamptz + make_interval(days => retention_days)
where no = $1 and phase = 'sealing' and owner_no = $2 and deleted_at is null
returning least(results_expires_at, sealed_at + make_interval(secs => output_seconds));
