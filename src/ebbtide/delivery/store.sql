-- Webhooks and their events. An event comes to be by the trigger on batch_jobs, in the transaction that seals a batch.

-- name: set_webhook
-- Set an account's webhook up or change it; a new address or a fresh start has no past. The secret stays unless $5.
insert into batch_webhooks as w (account_id, url, secret, enabled, created_at, updated_at)
values ($1, $2, $3, coalesce($4, true), $6, $6)
on conflict (account_id) do update
set url = excluded.url, secret = case when $5 then excluded.secret else w.secret end,
    enabled = coalesce($4, w.enabled), updated_at = excluded.updated_at,
    timeouts_in_row = 0, rest_level = 0, rest_until = null
returning url, secret, enabled, created_at, updated_at, rest_until;

-- name: change_webhook
-- Change an account's webhook and keep its address; no row when there is none.
update batch_webhooks
set secret = case when $4 then $2 else secret end, enabled = coalesce($3, enabled), updated_at = $5,
    timeouts_in_row = case when $3 then 0 else timeouts_in_row end,
    rest_level = case when $3 then 0 else rest_level end,
    rest_until = case when $3 then null else rest_until end
where account_id = $1
returning url, secret, enabled, created_at, updated_at, rest_until;

-- name: get_webhook
-- An account's webhook.
select url, secret, enabled, created_at, updated_at, rest_until from batch_webhooks where account_id = $1;

-- name: delete_webhook
-- Remove an account's webhook.
delete from batch_webhooks where account_id = $1 returning account_id;

-- name: drop_events
-- Forget the events that an account's webhook was still to be sent.
delete from batch_webhook_events where account_id = $1 and state = 'pending';

-- name: find_event
-- An account's event, as a place in its list.
select no from batch_webhook_events where id = $1 and account_id = $2;

-- name: list_events
-- An account's events, newest first, after the one numbered $2.
select id, type, created_at, batch_id, state, attempts, next_at, delivered_at, last_status, last_error
from batch_webhook_events
where account_id = $1 and ($2::bigint is null or no < $2)
order by no desc limit $3;

-- name: take_turns
-- Give a worker the turn of up to $4 accounts that have an event due and that nobody is sending to.
update batch_webhooks set worker_no = $2, busy_until = now() + make_interval(secs => $3)
where account_id = any(array(
    select w.account_id
    from batch_webhooks w
    join accounts a on a.id = w.account_id and a.state <> 'deleted'
    cross join lateral (
        select e.next_at from batch_webhook_events e
        where e.account_id = w.account_id and e.state = 'pending' and e.next_at <= $1
        order by e.next_at, e.no limit 1) due
    where w.enabled and (w.rest_until is null or w.rest_until <= $1) and (w.busy_until is null or w.busy_until <= now())
    order by due.next_at limit $4
    for update of w skip locked))
returning account_id;

-- name: claim_events
-- The event that is next for each account whose turn was taken. By itself, so that it sees what the last turn wrote.
select w.account_id, w.url, w.secret, w.timeouts_in_row, w.rest_level, w.rest_until,
       e.id, e.type, e.created_at, e.batch_id, e.attempts
from batch_webhooks w
cross join lateral (
    select e.id, e.type, e.created_at, e.batch_id, e.attempts from batch_webhook_events e
    where e.account_id = w.account_id and e.state = 'pending' and e.next_at <= $2
    order by e.next_at, e.no limit 1) e
where w.account_id = any($1::text[]);

-- name: end_turn
-- Give a turn back, if it is still the worker's, with how the endpoint has been answering, if it is still the same one.
update batch_webhooks
set worker_no = null, busy_until = null,
    timeouts_in_row = case when url = $3 then $4 else timeouts_in_row end,
    rest_level = case when url = $3 then $5 else rest_level end,
    rest_until = case when url = $3 then $6 else rest_until end
where account_id = $1 and worker_no = $2
returning account_id;

-- name: record_try
-- How one try to deliver an event went.
update batch_webhook_events
set state = $2, attempts = attempts + 1, next_at = $3, delivered_at = $4, last_status = $5, last_error = $6
where id = $1 and state = 'pending';

-- name: hand_turns_back
-- Give turns back that nothing came of.
update batch_webhooks w set worker_no = null, busy_until = null
from unnest($1::text[], $2::bigint[]) as mine (account_id, worker_no)
where w.account_id = mine.account_id and w.worker_no = mine.worker_no;

-- name: prune_events
-- Forget events that are old, delivered or not.
delete from batch_webhook_events
where id in (select id from batch_webhook_events where created_at < $1 order by created_at limit $2);

-- name: drop_strays
-- Forget events that waited for a webhook that was removed while their batch was being sealed.
delete from batch_webhook_events
where id = any(array(
    select e.id from batch_webhook_events e
    where e.state = 'pending' and not exists (select from batch_webhooks w where w.account_id = e.account_id)
    limit $1));

-- name: deleted_accounts
-- Accounts that were deleted and have a webhook to which nothing is being sent.
select w.account_id from batch_webhooks w join accounts a on a.id = w.account_id and a.state = 'deleted'
where w.busy_until is null or w.busy_until <= now() limit $1;

-- name: remove_webhook
-- Remove the webhook of an account that is being removed, unless something is being sent to it.
delete from batch_webhooks where account_id = $1 and (busy_until is null or busy_until <= now());

-- name: remove_events
-- Remove some events of an account that is being removed.
delete from batch_webhook_events
where ctid = any(array(select ctid from batch_webhook_events where account_id = $1 limit $2));

-- name: has_webhook
-- Whether an account has a webhook.
select exists (select from batch_webhooks where account_id = $1);
