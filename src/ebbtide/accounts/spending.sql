-- name: account_spending
-- An account's quotas (else its role's: $3, $4 a day, $5 a month), with what was charged today and this month (UTC).
select coalesce(a.daily_quota_usd, r.daily) as daily, coalesce(a.monthly_quota_usd, r.monthly) as monthly,
       coalesce(s.day, 0) as spent_day, coalesce(s.month, 0) as spent_month
from accounts a
left join unnest($3::text[], $4::numeric[], $5::numeric[]) as r(role, daily, monthly) on r.role = a.role
left join lateral (
    select sum(cost_usd) filter (where day = $2) as day, sum(cost_usd) as month
    from spend_days s where s.account_id = a.id and s.day >= date_trunc('month', $2::date)::date and s.day <= $2
) s on true
where a.id = $1;

-- name: key_spending
-- The same for an account's keys and their budgets, oldest first: those that work, or were charged this month.
select k.id, k.name, k.daily_budget_usd as daily, k.monthly_budget_usd as monthly,
       coalesce(s.day, 0) as spent_day, coalesce(s.month, 0) as spent_month
from api_keys k
left join (
    select key_id, sum(cost_usd) filter (where day = $2) as day, sum(cost_usd) as month
    from spend_days where account_id = $1 and day >= date_trunc('month', $2::date)::date and day <= $2
    group by key_id
) s on s.key_id = k.id
where k.account_id = $1 and (s.month > 0 or k.revoked_at is null and (k.expires_at is null or k.expires_at > $3))
order by k.created_at, k.id limit $4;
