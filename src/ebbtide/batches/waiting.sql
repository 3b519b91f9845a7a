-- name: raise_waiting
-- Models whose requests have waited for capacity since before $2, reported at $1: each comes back to one process only.
update batch_model_state s set alerted_at = $1
where s.waiting_since <= $2 and s.alerted_at is null
  and exists (select from batch_queues q where q.model = s.model and q.queued > 0)
returning s.model, s.waiting_since;

-- name: resolve_waiting
-- Models that have served a request since they were reported; one that waits again by now began anew.
update batch_model_state set alerted_at = null
where alerted_at is not null and (waiting_since is null or waiting_since > alerted_at)
returning model;

-- name: forget_waiting
-- Models for which nobody waits any more, and that were not reported: the next wait begins anew.
update batch_model_state s set waiting_since = null
where s.waiting_since is not null and s.alerted_at is null
  and not exists (select from batch_queues q where q.model = s.model and q.queued + q.running > 0);

-- name: list_alerted
-- Models for which an alert stands.
select model from batch_model_state where alerted_at is not null;
