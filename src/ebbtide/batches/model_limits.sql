-- name: put_model_limit
-- A model's own cap on running batch requests; null: BATCH_MODEL_CONCURRENCY.
insert into batch_model_limits (model, max_concurrency, updated_at, updated_by) values ($1, $2, $3, $4)
on conflict (model) do update
set max_concurrency = excluded.max_concurrency, updated_at = excluded.updated_at, updated_by = excluded.updated_by;

-- name: lock_model_limit
-- A model's own cap, locked until the transaction ends.
select max_concurrency from batch_model_limits where model = $1 for update;

-- name: list_model_figures
-- For each model: its own cap, how it fares, what workers hold of it, the slots in which that may run, and what waits
-- of batches that claims may take from.
select m.model, l.max_concurrency, s.rest_until, s.rest_reason, s.room_reason, s.waiting_since,
       coalesce(q.held, 0) as held, coalesce(q.queued, 0) as queued,
       (select coalesce(sum(b.slots), 0)::int from batch_slots b join workers w on w.no = b.worker_no
        where b.model = m.model and w.ended_at is null and w.lease_until > now()) as slots,
       (select coalesce(sum(i.in_flight), 0)::int from batch_interactive_load i
        where i.model = m.model and i.seen_at > now() - interval '5 seconds') as interactive
from (select unnest($1::text[]) as model
      union select model from batch_queues where queued > 0 or running > 0) m
left join batch_model_limits l on l.model = m.model
left join batch_model_state s on s.model = m.model
left join (
    select b.model, sum(b.running)::int as held,
           sum(b.queued) filter (
               where batch_may_start(j.phase, j.closing, j.results_full, j.deleted_at, j.expires_at, $2)
                 and j.api_surface = any($3) and j.target = any($4) and j.schema_version <= $5)::int as queued
    from batch_queues b join batch_jobs j on j.no = b.batch_no
    group by b.model
) q on q.model = m.model
order by m.model;
