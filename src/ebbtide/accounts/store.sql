-- Accounts and their API keys.

-- name: add_account
-- One row when the name was free, none when a living account has it.
insert into accounts (id, name, role, created_at)
values ($1, $2, $3, $4)
on conflict (name) where state <> 'deleted' do nothing
returning id;

-- name: add_first_admin
-- One row for the one process that makes the first administrator, none for all others and ever after.
insert into accounts (id, name, role, created_at)
select $1, $2, 'admin', $3
where not exists (select from accounts where role = 'admin' or name = $2)
on conflict (name) where state <> 'deleted' do nothing
returning id;

-- name: find_account
-- A living account by its id or its name.
select id, name, role, state, created_at, daily_quota_usd, monthly_quota_usd, max_concurrency,
       batch_max_concurrency, email
from accounts
where state <> 'deleted' and (id = $1 or name = $1)
order by id = $1 desc
limit 1;

-- name: list_accounts
-- Every account that was not deleted, oldest first.
select id, name, role, state, created_at, daily_quota_usd, monthly_quota_usd, max_concurrency,
       batch_max_concurrency, email
from accounts
where state <> 'deleted'
order by created_at, id;

-- name: lock_admins
-- The administrators that may act, kept as they are until the transaction ends.
select id from accounts where role = 'admin' and state = 'active' order by id for no key update;

-- name: set_email
-- Note how an account can be reached.
update accounts set email = $2 where id = $1 and state <> 'deleted';

-- name: add_key
-- A new key of a living account; no row when the account is gone.
insert into api_keys (id, account_id, name, prefix, hash, created_at, expires_at)
select $1, id, $3, $4, $5, $6, $7
from accounts
where id = $2 and state <> 'deleted'
returning id, account_id, name, prefix, created_at, expires_at, revoked_at, last_used_at,
          daily_budget_usd, monthly_budget_usd;

-- name: list_keys
-- The keys of one account ($1), or of every account that was not deleted, oldest first.
select k.id, k.account_id, k.name, k.prefix, k.created_at, k.expires_at, k.revoked_at, k.last_used_at,
       k.daily_budget_usd, k.monthly_budget_usd
from api_keys k join accounts a on a.id = k.account_id
where a.state <> 'deleted' and ($1::text is null or k.account_id = $1)
order by k.created_at, k.id;

-- name: get_key
-- A key of an account that was not deleted.
select k.id, k.account_id, k.name, k.prefix, k.created_at, k.expires_at, k.revoked_at, k.last_used_at,
       k.daily_budget_usd, k.monthly_budget_usd
from api_keys k join accounts a on a.id = k.account_id
where k.id = $1 and a.state <> 'deleted';

-- name: revoke_key
-- Withdraw a key for good; the first time counts.
update api_keys
set revoked_at = coalesce(revoked_at, $2)
where id = $1
returning id, account_id, name, prefix, created_at, expires_at, revoked_at, last_used_at,
          daily_budget_usd, monthly_budget_usd;

-- name: find_key
-- Whose key this hash is and until when, if the key and its account may act at the time $2.
select k.id as key_id, k.account_id, a.role, k.expires_at
from api_keys k join accounts a on a.id = k.account_id
where k.hash = $1
  and k.revoked_at is null and (k.expires_at is null or k.expires_at > $2)
  and a.state = 'active';

-- name: record_key_use
-- When each of the keys $1 was last used ($2, same order), unless its row is less than $3 behind or being written.
with mine as (
    select k.id, used.at
    from api_keys k join unnest($1::text[], $2::timestamptz[]) as used (id, at) on used.id = k.id
    where k.last_used_at is null or k.last_used_at <= used.at - $3::interval
    for update of k skip locked
)
update api_keys k
set last_used_at = mine.at
from mine
where k.id = mine.id;
