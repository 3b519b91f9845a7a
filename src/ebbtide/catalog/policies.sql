-- An administrator's choice, per model and route, whether batch work may use the route. No row: it follows the locality.

-- name: list_policies
-- Every choice.
select model_id, route_id, batch_allowed from provider_route_batch_policies;

-- name: lock_policies
-- One change at a time, so that each sees what was chosen before it.
select pg_advisory_xact_lock(hashtextextended('ebbtide.route_policies', 0));

-- name: find_policy
-- The choice for one route, if there is one.
select batch_allowed from provider_route_batch_policies where model_id = $1 and route_id = $2;

-- name: put_policy
-- Choose for one route.
insert into provider_route_batch_policies (model_id, route_id, batch_allowed, updated_at, updated_by)
values ($1, $2, $3, $4, $5)
on conflict (model_id, route_id) do update
set batch_allowed = excluded.batch_allowed, updated_at = excluded.updated_at, updated_by = excluded.updated_by;

-- name: remove_policy
-- Let one route follow its locality again.
delete from provider_route_batch_policies where model_id = $1 and route_id = $2;
