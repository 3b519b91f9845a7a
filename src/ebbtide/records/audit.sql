-- The audit log: who changed what. Rows are only added.

-- name: add_audit
-- Note one deed, in the transaction that does it.
insert into audit_log (at, actor, action, object, account_id, detail)
values ($1, $2, $3, $4, $5, $6::text::jsonb);

-- name: list_audit
-- Newest first: those before the id $1 (null: from the newest), of one account ($2) or of all, at most $3.
select id, at, actor, action, object, account_id, detail::text as detail
from audit_log
where ($1::bigint is null or id < $1) and ($2::text is null or account_id = $2)
order by id desc
limit $3;
