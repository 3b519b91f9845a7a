-- name: report_load
-- What a process has in flight for interactive callers, by model; on the database's clock.
insert into batch_interactive_load (process, model, in_flight, seen_at)
select $1, model, in_flight, now() from unnest($2::text[], $3::int[]) as l(model, in_flight)
on conflict (process, model) do update set in_flight = excluded.in_flight, seen_at = excluded.seen_at;

-- name: forget_load
-- A process that ends has nothing in flight.
delete from batch_interactive_load where process = $1;

-- name: prune_load
-- Rows of processes that are gone.
delete from batch_interactive_load where seen_at < now() - interval '1 hour';
