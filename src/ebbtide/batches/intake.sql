-- name: lock_creator
-- Take the creator's account row (limits are counted under it) and tell whether it may still act through its key.
select may_act(a.state, k.revoked_at, k.expires_at, $3) as valid
from accounts a join api_keys k on k.account_id = a.id
where a.id = $1 and k.id = $2
for no key update of a;

-- name: count_unfinished
-- How many batches of an account are unfinished, and how many of their requests.
select count(*)::int as batches,
       coalesce(sum(total - completed - failed - cancelled - expired), 0)::bigint as requests
from batch_jobs where account_id = $1 and phase <> 'sealed' and deleted_at is null;

-- name: insert_batch
-- A new batch: open when its requests are checked already, validating when a file has to be read first.
insert into batch_jobs
    (id, account_id, key_id, api_surface, target, input_id, metadata, completion_window, retention_days,
     phase, created_at, expires_at, total, model, schema_version, output_seconds, anthropic_version, failed,
     name, priority, from_file)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)
returning no;

-- name: insert_queues
-- One row for each model of a batch, with how many items wait for it.
insert into batch_queues (batch_no, model, queued, next_ready_at)
select $1, model, queued, $4 from unnest($2::text[], $3::int[]) as q(model, queued);

-- name: ensure_user_state
-- The row that claims and settles of an account lock first.
insert into batch_user_state (account_id, service_at) values ($1, $2) on conflict do nothing;

-- name: claim_validation
-- Take the oldest file batch that waits to be validated and that no living worker is reading. One that is this worker's
-- already broke here before: it comes last, so that it holds up no other.
update batch_jobs set owner_no = $1
where no = (
    select no from batch_jobs j
    where phase = 'validating' and deleted_at is null
      and api_surface = any($2) and target = any($3) and schema_version <= $4
      and not exists (select from workers w
                      where w.no = j.owner_no and w.no <> $1 and w.ended_at is null and w.lease_until > now())
    order by coalesce(owner_no = $1, false), no limit 1 for update skip locked)
returning no, id, account_id, key_id, target, input_id, created_at, expires_at, anthropic_version,
    api_surface, model;

-- name: lock_validating
-- The batch, if this worker is still the one that validates it.
select no from batch_jobs
where no = $1 and phase = 'validating' and owner_no = $2 and deleted_at is null for no key update;

-- name: open_batch
-- Every line of the file is good: its requests may run.
update batch_jobs set phase = 'open', owner_no = null, total = $2, model = $3, in_progress_at = $4
where no = $1 and phase = 'validating';

-- name: reject_batch
-- The file cannot be run as it is: nothing of it does, and `errors` says why.
update batch_jobs set phase = 'sealed', owner_no = null, closing = 'failed', closing_at = $3, sealed_at = $3,
    errors = $2, results_expires_at = $3::timestamptz + make_interval(days => retention_days)
where no = $1 and phase = 'validating';

-- name: account_role
-- The role an account has now.
select role from accounts where id = $1;
