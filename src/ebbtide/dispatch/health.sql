-- How each process finds the routes that it uses. What was not told for half a minute counts for nothing.

-- name: report_health
-- How a process finds routes, on the database's clock; $5 are the seconds for which a circuit has not been closed.
insert into route_health (process, model, route, state, opened_at, failures, opened, closed, in_flight, most, keys,
                          keys_resting, last_error, seen_at)
select $1, model, route, state, now() - make_interval(secs => open_for), failures, opened, closed, in_flight, most, keys,
       keys_resting, last_error, now()
from unnest($2::text[], $3::text[], $4::text[], $5::float8[], $6::int[], $7::int[], $8::int[], $9::int[], $10::int[],
            $11::int[], $12::int[], $13::text[])
     as h(model, route, state, open_for, failures, opened, closed, in_flight, most, keys, keys_resting, last_error)
on conflict (process, model, route) do update
set state = excluded.state, opened_at = excluded.opened_at, failures = excluded.failures, opened = excluded.opened,
    closed = excluded.closed, in_flight = excluded.in_flight, most = excluded.most, keys = excluded.keys,
    keys_resting = excluded.keys_resting, last_error = excluded.last_error, seen_at = excluded.seen_at;

-- name: forget_health
-- A process ends; and what is left of those that are gone.
delete from route_health where process = $1 or seen_at < now() - interval '5 minutes';

-- name: prune_health
-- Rows of processes that are gone, and of routes that one has not told of again.
delete from route_health where seen_at < now() - interval '5 minutes';

-- name: read_health
-- How the living processes find the routes.
select process, model, route, state, opened_at, failures, opened, closed, in_flight, most, keys, keys_resting, last_error,
       seen_at
from route_health where seen_at > now() - interval '30 seconds'
order by model, route, process;
