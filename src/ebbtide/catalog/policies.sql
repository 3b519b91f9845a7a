-- An administrator's choices per model and route: whether batch work may use the route (no row: it follows the locality),
-- whether anything may, and with which weight (no row: as configured).

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

-- name: list_overrides
-- What administrators changed of routes.
select model_id, route_id, enabled, weight from provider_route_overrides;

-- name: find_override
-- What was changed of one route, if anything.
select enabled, weight from provider_route_overrides where model_id = $1 and route_id = $2;

-- name: put_override
-- Change a route while the gateway runs.
insert into provider_route_overrides (model_id, route_id, enabled, weight, updated_at, updated_by)
values ($1, $2, $3, $4, $5, $6)
on conflict (model_id, route_id) do update
set enabled = excluded.enabled, weight = excluded.weight, updated_at = excluded.updated_at,
    updated_by = excluded.updated_by;

-- name: remove_override
-- Let a route be as it is configured again.
delete from provider_route_overrides where model_id = $1 and route_id = $2;
