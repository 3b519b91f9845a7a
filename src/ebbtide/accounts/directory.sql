-- Accounts and keys as administrators and their owners list and change them.

-- name: page_accounts
-- A page of living accounts, oldest first, after the account $1; by a part of name or e-mail or
-- the id ($2), role, state.
select id, name, role, state, created_at, daily_quota_usd, monthly_quota_usd, max_concurrency, batch_max_concurrency,
       email
from accounts
where state <> 'deleted'
  and ($1::text is null or (created_at, id) > (select created_at, id from accounts where id = $1))
  and ($2::text is null or id = $2 or position(lower($2) in lower(name)) > 0 or position(lower($2) in lower(email)) > 0)
  and ($3::text is null or role = $3) and ($4::text is null or state = $4)
order by created_at, id limit $5;

-- name: page_deleted_accounts
-- The same of deleted accounts.
select id, name, role, state, created_at, daily_quota_usd, monthly_quota_usd, max_concurrency, batch_max_concurrency,
       email
from accounts
where state = 'deleted'
  and ($1::text is null or (created_at, id) > (select created_at, id from accounts where id = $1))
  and ($2::text is null or id = $2 or position(lower($2) in lower(name)) > 0 or position(lower($2) in lower(email)) > 0)
  and ($3::text is null or role = $3)
order by created_at, id limit $4;

-- name: get_account
-- A living account by its id.
select id, name, role, state, created_at, daily_quota_usd, monthly_quota_usd, max_concurrency, batch_max_concurrency,
       email
from accounts where id = $1 and state <> 'deleted';

-- name: lock_account
-- The same, as it is until the transaction ends.
select id, name, role, state, created_at, daily_quota_usd, monthly_quota_usd, max_concurrency, batch_max_concurrency,
       email
from accounts where id = $1 and state <> 'deleted' for no key update;

-- name: name_taken
-- Whether another living account has the name.
select exists (select from accounts where name = $2 and id <> $1 and state <> 'deleted');

-- name: change_account
-- Write a locked account as it is to be.
update accounts
set name = $2, role = $3, state = $4, daily_quota_usd = $5, monthly_quota_usd = $6, max_concurrency = $7,
    batch_max_concurrency = $8, email = $9
where id = $1;

-- name: account_names
-- What accounts are called, and how their owners are reached; deleted ones too.
select id, name, email from accounts where id = any($1);

-- name: has_password
-- Whether an account can sign in by password.
select password_hash is not null from accounts where id = $1;

-- name: list_identities
-- Who signs in by OpenID Connect as an account, oldest first.
select issuer, subject, created_at from oidc_identities where account_id = $1 order by created_at, issuer, subject;

-- name: knows_account
-- Whether there is, or was, such an account: what makes a cursor good.
select exists (select from accounts where id = $1);

-- name: page_keys
-- A page of an account's keys, oldest first, after the key $2; revoked and expired ones included.
select id, account_id, name, prefix, created_at, expires_at, revoked_at, last_used_at, daily_budget_usd,
       monthly_budget_usd
from api_keys
where account_id = $1
  and ($2::text is null or (created_at, id) > (select created_at, id from api_keys where id = $2 and account_id = $1))
order by created_at, id limit $3;

-- name: knows_key
-- Whether the account has such a key: what makes a cursor good.
select exists (select from api_keys where id = $2 and account_id = $1);

-- name: spent
-- What an account was charged today and this month (UTC).
select coalesce(sum(cost_usd) filter (where day = $2), 0) as day, coalesce(sum(cost_usd), 0) as month
from spend_days where account_id = $1 and day >= date_trunc('month', $2::date)::date and day <= $2;
