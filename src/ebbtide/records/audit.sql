-- The audit log: who changed what. Rows are only added.

-- name: add_audit
-- Note one deed, in the transaction that does it.
insert into audit_log (at, actor, action, object, account_id, detail)
values ($1, $2, $3, $4, $5, $6::text::jsonb);

-- name: plan_for_values
-- In this transaction, plan each statement for its own values: a filter that is not given then costs nothing.
select set_config('plan_cache_mode', 'force_custom_plan', true);

-- name: list_audit
-- Newest first: those before the id $1 (null: from the newest), at most $2; of one account ($3), by actors from $4 to $5,
-- of actions from $6 to $7, done to one thing ($8), from the moment $9 up to, not including, $10.
select id, at, actor, action, object, account_id, detail::text as detail
from audit_log
where ($1::bigint is null or id < $1) and ($3::text is null or account_id = $3)
  and ($4::text is null or actor collate "C" >= $4) and ($5::text is null or actor collate "C" <= $5)
  and ($6::text is null or action collate "C" >= $6) and ($7::text is null or action collate "C" <= $7)
  and ($8::text is null or object = $8)
  and ($9::timestamptz is null or at >= $9) and ($10::timestamptz is null or at < $10)
order by id desc
limit $2;
