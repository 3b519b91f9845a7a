-- Removing all batches of an account that is being removed for good.

-- name: stop_account
-- Stop some unfinished batches of an account, as cancel_batch does.
update batch_jobs
set closing = 'cancelled', closing_at = $2,
    phase = case phase when 'validating' then 'sealed' else phase end,
    sealed_at = case phase when 'validating' then $2::timestamptz end,
    results_expires_at = case phase when 'validating' then $2::timestamptz + make_interval(days => retention_days) end,
    owner_no = null
where no = any(array(
    select no from batch_jobs
    where account_id = $1 and deleted_at is null and closing is null and phase in ('validating', 'open')
      and api_surface = any($4) and target = any($5) and schema_version <= $6
    order by no limit $3 for no key update))
returning no;

-- name: idle_of_account
-- Some of its stopped batches on which no living worker runs a request, or makes result files unless $2 (that has taken
-- too long: the sealer finds them deleted, and drops what it wrote), locked in order.
select no, id, input_id from batch_jobs j
where account_id = $1 and deleted_at is null
  and (closing is not null or results_full or phase in ('sealing', 'sealed'))
  and api_surface = any($4) and target = any($5) and schema_version <= $6
  and not exists (
    select from workers w join batch_items i on i.worker_no = w.no and i.state = 'running' and i.batch_no = j.no
    where w.ended_at is null and w.lease_until > now())
  and ($2 or phase <> 'sealing' or not exists (
    select from workers w where w.no = j.owner_no and w.ended_at is null and w.lease_until > now()))
order by no limit $3 for no key update;

-- name: removable_of_account
-- Some of its hidden batches that nobody reads, locked in order.
select no from batch_jobs j
where account_id = $1 and deleted_at is not null and deleted_at <= $2
  and api_surface = any($4) and target = any($5) and schema_version <= $6
  and not exists (select from batch_read_leases l where l.batch_no = j.no and l.expires_at > now())
order by no limit $3 for update;

-- name: standing_of_account
-- How many batches an account has, hidden ones too, and what keeps any of them.
select count(*) as left,
       coalesce(bool_or(deleted_at is null and exists (
           select from workers w join batch_items i on i.worker_no = w.no and i.state = 'running' and i.batch_no = j.no
           where w.ended_at is null and w.lease_until > now())), false) as running_requests,
       coalesce(bool_or(deleted_at is null and phase = 'sealing' and exists (
           select from workers w where w.no = j.owner_no and w.ended_at is null and w.lease_until > now())), false)
           as sealing,
       coalesce(bool_or(deleted_at is not null and exists (
           select from batch_read_leases l where l.batch_no = j.no and l.expires_at > now())), false) as readers,
       coalesce(bool_or(not (api_surface = any($2) and target = any($3) and schema_version <= $4)), false)
           as newer_release
from (
    select * from batch_jobs where account_id = $1 and deleted_at is null
    union all
    select * from batch_jobs where account_id = $1 and deleted_at is not null
) j;

-- name: drop_keys
-- Remove some of an account's idempotency keys.
delete from batch_idempotency
where ctid = any(array(select ctid from batch_idempotency where account_id = $1 limit $2));

-- name: drop_key_states
-- What stood in the way of the account's keys.
delete from batch_key_state where key_id in (select id from api_keys where account_id = $1);

-- name: drop_account_reservations
-- What the account's requests might have cost.
delete from batch_reservations where account_id = $1;

-- name: drop_account_slots
-- The slots that workers held for the account.
delete from batch_slots where account_id = $1;

-- name: drop_user_state
-- The row that claims and settles of the account locked.
delete from batch_user_state where account_id = $1;
