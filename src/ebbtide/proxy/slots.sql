-- name: lock_account
-- One change of an account's slots at a time, across all processes.
select id from accounts where id = $1 for no key update;

-- name: slots_elsewhere
-- What other processes that live hold of an account.
select coalesce(sum(slots), 0)::integer as slots from interactive_slots
where account_id = $1 and process <> $2 and lease_until > now();

-- name: set_slots
-- What a process holds of an account from now, and whether it asked for more than it got; the account is locked.
insert into interactive_slots (account_id, process, slots, asked_at, lease_until)
values ($1, $2, $3, case when $4::boolean then now() end, now() + make_interval(secs => $5))
on conflict (account_id, process) do update
set slots = excluded.slots, asked_at = excluded.asked_at, lease_until = excluded.lease_until;

-- name: keep_slots
-- Prolong a process's leases that have not lapsed, with no more slots than before; and what others hold beside them.
update interactive_slots s
set slots = least(s.slots, v.slots), lease_until = now() + make_interval(secs => $4)
from unnest($2::text[], $3::integer[]) as v(account_id, slots)
where s.process = $1 and s.account_id = v.account_id and s.lease_until > now()
returning s.account_id, (select coalesce(sum(o.slots), 0)::integer from interactive_slots o
    where o.account_id = s.account_id and o.process <> $1 and o.lease_until > now()) as elsewhere;

-- name: wanted_elsewhere
-- Of accounts with idle slots here, those of which another process has just asked for more.
select distinct account_id from interactive_slots
where account_id = any($1) and process <> $2 and asked_at > now() - interval '1 second' and lease_until > now();

-- name: drop_slots
-- A process holds nothing more of accounts.
delete from interactive_slots where process = $1 and account_id = any($2) and slots = 0;

-- name: end_slots
-- A process ends; and what is left of those that are long gone.
delete from interactive_slots where process = $1 or lease_until < now() - interval '1 hour';
