-- name: read_limits
-- The quotas of accounts (else of their roles $3, $4 a day, $5 a month) and the budgets of keys that have any, with what
-- was charged today and this month (UTC).
select k.id as key_id, a.id as account_id,
       coalesce(a.daily_quota_usd, r.daily) as daily_quota_usd,
       coalesce(a.monthly_quota_usd, r.monthly) as monthly_quota_usd, k.daily_budget_usd, k.monthly_budget_usd,
       coalesce(account.day, 0) as account_day, coalesce(account.month, 0) as account_month,
       coalesce(own.day, 0) as key_day, coalesce(own.month, 0) as key_month
from api_keys k
join accounts a on a.id = k.account_id
left join unnest($3::text[], $4::numeric[], $5::numeric[]) as r(role, daily, monthly) on r.role = a.role
left join lateral (
    select sum(cost_usd) filter (where day = $2) as day, sum(cost_usd) as month
    from spend_days s where s.account_id = a.id and s.day >= date_trunc('month', $2::date)::date and s.day <= $2
) account on true
left join lateral (
    select sum(cost_usd) filter (where day = $2) as day, sum(cost_usd) as month
    from spend_days s where s.account_id = a.id and s.key_id = k.id
      and s.day >= date_trunc('month', $2::date)::date and s.day <= $2
) own on true
where k.id = any($1)
  and (coalesce(a.daily_quota_usd, r.daily) is not null or coalesce(a.monthly_quota_usd, r.monthly) is not null
       or k.daily_budget_usd is not null or k.monthly_budget_usd is not null);

-- name: lock_quotas
-- A living account's quotas as they are, locked until the transaction ends.
select id as account_id, daily_quota_usd as daily, monthly_quota_usd as monthly
from accounts where id = $1 and state <> 'deleted' for no key update;

-- name: lock_budgets
-- The same for a key's budgets.
select account_id, daily_budget_usd as daily, monthly_budget_usd as monthly
from api_keys where id = $1 for no key update;

-- name: set_quotas
-- An account's daily and monthly quota; null takes a quota away.
update accounts set daily_quota_usd = $2, monthly_quota_usd = $3 where id = $1 and state <> 'deleted';

-- name: set_budgets
-- A key's daily and monthly budget; null takes a budget away.
update api_keys set daily_budget_usd = $2, monthly_budget_usd = $3 where id = $1;

-- name: read_cap
-- A key's account as it bears on concurrency: its role, and its own cap of interactive requests.
select a.role, a.max_concurrency from api_keys k join accounts a on a.id = k.account_id where k.id = $1;

-- name: lock_concurrency
-- A living account's own caps, locked until the transaction ends.
select max_concurrency, batch_max_concurrency from accounts where id = $1 and state <> 'deleted' for no key update;

-- name: set_concurrency
-- An account's own caps of interactive and of batch requests; null: its role's.
update accounts set max_concurrency = $2, batch_max_concurrency = $3 where id = $1;
