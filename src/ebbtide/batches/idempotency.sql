-- name: find_key
-- What an account's idempotency key stands for, while it is remembered.
select request_hash, batch_id from batch_idempotency
where account_id = $1 and key = $2 and (forget_at is null or forget_at > $3);

-- name: claim_key
-- Take a key for a batch about to be stored; nothing comes back while it stands for another. A create under way that
-- has the key is waited for.
insert into batch_idempotency (account_id, key, request_hash, batch_id, created_at) values ($1, $2, $3, $4, $5)
on conflict (account_id, key) do update
set request_hash = excluded.request_hash, batch_id = excluded.batch_id, created_at = excluded.created_at,
    forget_at = null
where batch_idempotency.forget_at <= excluded.created_at
returning key;

-- name: bury_keys
-- The keys of a deleted batch stay for a while, so that a late retry of its create makes no second batch.
update batch_idempotency set forget_at = $2 where batch_id = $1;

-- name: forget_keys
-- Drop some keys whose time is over.
delete from batch_idempotency where (account_id, key) in (
    select account_id, key from batch_idempotency where forget_at <= $1
    order by forget_at limit $2 for update skip locked);
