-- name: reserved_elsewhere
-- What requests of an account may cost, by key: interactive ones of other processes, and those of living workers.
select r.key_id, sum(r.cost_usd) as cost_usd
from (
    select key_id, cost_usd from interactive_reservations
    where account_id = $1 and process <> $2 and seen_at > now() - interval '5 seconds'
    union all
    select b.key_id, b.cost_usd from batch_reservations b join workers w on w.no = b.worker_no
    where b.account_id = $1 and w.ended_at is null and w.lease_until > now()
) r
group by r.key_id;

-- name: reserve
-- What a process's requests may cost, by key.
insert into interactive_reservations (process, key_id, account_id, cost_usd, seen_at)
select $1, key_id, account_id, cost_usd, now()
from unnest($2::text[], $3::text[], $4::numeric[]) as r(key_id, account_id, cost_usd)
on conflict (process, key_id) do update set cost_usd = excluded.cost_usd, seen_at = excluded.seen_at;

-- name: end_reservations
-- A process ends; and what is left of those that are long gone.
delete from interactive_reservations where process = $1 or seen_at < now() - interval '1 hour';
