-- name: read_room
-- What bears on a model's room: its own cap, how it fares, and the interactive requests in flight on it elsewhere.
select l.model is not null and l.max_concurrency is not null as has_cap, coalesce(l.max_concurrency, 0) as cap,
       coalesce(s.failures, 0) as failures, coalesce(s.rest_level, 0) as rest_level, s.rest_until, s.rest_reason,
       s.waiting_since, s.alerted_at, s.room_reason,
       (select coalesce(sum(i.in_flight), 0)::int from batch_interactive_load i
        where i.model = m.model and i.process <> $2 and i.seen_at > now() - interval '5 seconds') as interactive
from (select $1::text as model) m
left join batch_model_limits l on l.model = m.model
left join batch_model_state s on s.model = m.model;

-- name: set_room_reason
-- Why batches that wait for a model get nothing, for those who ask; null when they do.
insert into batch_model_state (model, room_reason) values ($1, $2)
on conflict (model) do update set room_reason = excluded.room_reason;

-- name: lock_model_states
-- How models fare, locked in order.
select model, failures, rest_level, rest_until, rest_reason, waiting_since, alerted_at
from batch_model_state where model = any($1) order by model for no key update;

-- name: save_model_state
-- How a model fares after a settle.
insert into batch_model_state as s
    (model, failures, rest_level, rest_until, rest_reason, waiting_since, alerted_at)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict (model) do update
set failures = excluded.failures, rest_level = excluded.rest_level, rest_until = excluded.rest_until,
    rest_reason = excluded.rest_reason, waiting_since = excluded.waiting_since, alerted_at = excluded.alerted_at;

-- name: lock_user_states
-- Lock the accounts a transaction touches, in order, and read their recent batch time, role and own cap.
select u.account_id, u.at_cap, recent_service(u.service_seconds, u.service_at, $2) as service_seconds,
       a.role, a.batch_max_concurrency as own_cap
from batch_user_state u join accounts a on a.id = u.account_id
where u.account_id = any($1) order by u.account_id for no key update of u;

-- name: add_service
-- What accounts' items took, added to their recent batch time.
update batch_user_state u
set service_seconds = d.seconds + recent_service(u.service_seconds, u.service_at, $3),
    service_at = greatest(u.service_at, $3)
from unnest($1::text[], $2::float8[]) as d(account_id, seconds)
where u.account_id = d.account_id;

-- name: set_at_cap
-- Accounts whose cap keeps them from more slots, or does no longer; the rows are locked.
update batch_user_state u set at_cap = v.at_cap
from unnest($1::text[], $2::boolean[]) as v(account_id, at_cap)
where u.account_id = v.account_id and u.at_cap <> v.at_cap;

-- name: park_account
-- All batches of an account wait: one row says so. The row is locked.
update batch_user_state set blocked_reason = $2, blocked_until = $3 where account_id = $1;

-- name: unpark_accounts
-- Nothing stands in these accounts' way any more.
update batch_user_state set blocked_reason = null, blocked_until = null
where account_id = any($1) and blocked_until is not null;

-- name: park_key
-- All batches created with a key wait.
insert into batch_key_state (key_id, blocked_reason, blocked_until) values ($1, $2, $3)
on conflict (key_id) do update set blocked_reason = excluded.blocked_reason, blocked_until = excluded.blocked_until;

-- name: unpark_keys
-- Nothing stands in these keys' way any more.
delete from batch_key_state where key_id = any($1);

-- name: reserved
-- What the running requests of accounts may cost, by key: at other workers that live, and interactive ones everywhere.
select r.account_id, r.key_id, sum(r.cost_usd) as cost_usd
from (
    select b.account_id, b.key_id, b.cost_usd from batch_reservations b join workers w on w.no = b.worker_no
    where b.account_id = any($1) and b.worker_no <> $2 and w.ended_at is null and w.lease_until > now()
    union all
    select i.account_id, i.key_id, i.cost_usd from interactive_reservations i
    where i.account_id = any($1) and i.seen_at > now() - interval '5 seconds'
) r
group by r.account_id, r.key_id;

-- name: set_reservations
-- What this worker's running requests may cost, by key.
insert into batch_reservations (worker_no, key_id, account_id, cost_usd)
select $1, key_id, account_id, cost_usd from unnest($2::text[], $3::text[], $4::numeric[]) as r(key_id, account_id, cost_usd)
on conflict (worker_no, key_id) do update set cost_usd = excluded.cost_usd;

-- name: put_back
-- Items just claimed for which no money is left until running ones have ended.
update batch_items i set state = 'queued', worker_no = null, ready_at = $4
from unnest($1::bigint[], $2::bigint[], $3::int[]) as v(batch_no, id, epoch)
where i.batch_no = v.batch_no and i.id = v.id and i.state = 'running' and i.claim_epoch = v.epoch;
