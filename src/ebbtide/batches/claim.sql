-- name: waiting_models
-- Models with items that may be claimed now, under the eligibility rule that claims use.
select distinct q.model from batch_queues q
cross join lateral (select * from batch_jobs where no = q.batch_no offset 0) j  -- offset 0: see list_candidates
where q.queued > 0 and q.next_ready_at <= $1
  and batch_may_start(j.phase, j.closing, j.results_full, j.deleted_at, j.expires_at, $1)
  and j.api_surface = any($2) and j.target = any($3) and j.schema_version <= $4;

-- name: list_candidates
-- Batches with items of a model to claim, most urgent first, and how their creator stands. Parked ones stay out until
-- it is time to look again; where a limit is used up a little earlier, so that the reason is told without a gap.
-- `offset 0` keeps the batch looked up by its number: on a young database, without statistics, the plan is else
-- quadratic in batches.
select q.batch_no, j.account_id, j.key_id, j.expires_at, q.queued, a.role,
       may_act(a.state, k.revoked_at, k.expires_at, $2) as creator_valid,
       a.daily_quota_usd is not null or a.monthly_quota_usd is not null or a.role = any($7)
           or k.daily_budget_usd is not null or k.monthly_budget_usd is not null as has_limits,
       u.blocked_until is not null or s.blocked_until is not null as is_parked, j.priority
from batch_queues q
cross join lateral (select * from batch_jobs where no = q.batch_no offset 0) j
join accounts a on a.id = j.account_id
join api_keys k on k.id = j.key_id
join batch_user_state u on u.account_id = j.account_id
left join batch_key_state s on s.key_id = j.key_id
where q.model = $1 and q.queued > 0 and q.next_ready_at <= $2
  and batch_may_start(j.phase, j.closing, j.results_full, j.deleted_at, j.expires_at, $2)
  and j.api_surface = any($3) and j.target = any($4) and j.schema_version <= $5
  and (u.blocked_until is null or u.blocked_until <= $2 + interval '5 seconds')
  and (s.blocked_until is null
       or s.blocked_until <= $2 + case s.blocked_reason when 'reserved' then interval '0' else interval '5 seconds' end)
order by j.expires_at, q.batch_no limit $6;

-- name: lock_model
-- One claim of a model at a time, across all processes.
select pg_advisory_xact_lock(hashtextextended('ebbtide.claim.' || $1::text, 0));

-- name: lock_claimable
-- Lock batches in order; only those from which items may still be started come back.
select no, id, account_id, key_id, target, input_id, expires_at, in_progress_at is not null as has_begun,
       anthropic_version
from batch_jobs
where no = any($1) and batch_may_start(phase, closing, results_full, deleted_at, expires_at, $2)
order by no for no key update;

-- name: claim_items
-- Take ready items of locked batches, oldest first, and raise their epoch. The picked rows are locked and named by their
-- place (ctid): whatever statistics there are, the picking runs once and no plan looks for its rows again.
update batch_items set state = 'running', worker_no = $4, claim_epoch = claim_epoch + 1
where ctid = any (array(
    select chosen.place from unnest($1::bigint[], $2::int[]) as want(batch_no, take)
    cross join lateral (
        select q.ctid as place from batch_items q
        where q.batch_no = want.batch_no and q.model = $3 and q.state = 'queued' and q.ready_at <= $5
        order by q.ready_at, q.id limit want.take for update skip locked
    ) chosen)) and state = 'queued'
returning batch_no, id, claim_epoch, attempts, custom_id, chunk, line_offset, line_length, max_tokens;

-- name: count_claimed
-- Move claimed items from waiting to running; a queue that gave fewer than asked learns when to be asked again.
update batch_queues q
set queued = q.queued - c.claimed, running = q.running + c.claimed,
    next_ready_at = case when c.claimed < c.asked then coalesce(
        (select min(ready_at) from batch_items i where i.batch_no = q.batch_no and i.model = q.model
         and i.state = 'queued'), 'infinity') else q.next_ready_at end
from unnest($2::bigint[], $3::int[], $4::int[]) as c(batch_no, asked, claimed)
where q.batch_no = c.batch_no and q.model = $1;

-- name: start_batches
-- The first claim of a batch is when it comes to be in progress.
update batch_jobs set in_progress_at = $2 where no = any($1) and in_progress_at is null;

-- name: unstartable_batches
-- Of the batches a worker holds items of, those from which nothing may start any more.
select b.no from unnest($1::bigint[]) as b(no)
where not exists (
    select from batch_jobs j join accounts a on a.id = j.account_id join api_keys k on k.id = j.key_id
    where j.no = b.no and batch_may_start(j.phase, j.closing, j.results_full, j.deleted_at, j.expires_at, $2)
      and may_act(a.state, k.revoked_at, k.expires_at, $2) and a.role = any($3));
