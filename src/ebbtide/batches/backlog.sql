-- name: queues
-- What waits and runs by model, and since when the oldest batch with requests that wait was there.
select q.model, sum(q.queued)::bigint as queued, sum(q.running)::bigint as running,
       coalesce(extract(epoch from now() - min(j.created_at) filter (where q.queued > 0)), 0)::float8 as oldest
from batch_jobs j join batch_queues q on q.batch_no = j.no
where j.phase <> 'sealed'
group by q.model;

-- name: phases
-- Unfinished batches by phase, and how long the first of each has been finalizing.
select phase, count(*)::bigint as batches,
       coalesce(extract(epoch from now() - min(finalizing_at)), 0)::float8 as oldest
from batch_jobs where phase <> 'sealed' group by phase;

-- name: webhooks
-- Events that wait to be delivered, and the age of the oldest.
select count(*)::bigint as events, coalesce(extract(epoch from now() - min(created_at)), 0)::float8 as oldest
from batch_webhook_events where state = 'pending';

-- name: workers
-- Workers whose lease holds.
select count(*)::bigint from workers where ended_at is null and lease_until > now();
