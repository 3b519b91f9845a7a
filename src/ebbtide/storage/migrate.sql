-- name: lock_migrations
-- One process at a time; held until its transaction ends.
select pg_advisory_xact_lock($1)

-- name: server_version
-- The server's version as a number, 150004 for 15.4; asked of the server, since a pooler answers for itself.
select current_setting('server_version_num')::integer

-- name: has_history
-- Whether any migration was ever recorded here.
select to_regclass('schema_migrations') is not null

-- name: create_history
-- Runs under the lock: two processes creating one table together would fail, `if not exists` or not.
create table if not exists schema_migrations (
    number     integer primary key,
    name       text not null,
    applied_at timestamptz not null
)

-- name: extend_history
-- The lowest schema version that a build has to know to work on the database with a migration; null before it was told.
alter table schema_migrations add column if not exists oldest_build integer

-- name: limit_waiting
-- How long this transaction waits for a table, and lets everybody who comes after it wait behind it.
select set_config('lock_timeout', $1, true)

-- name: list_applied
-- What was applied, oldest first; also where the column is not there yet.
select number, name, (to_jsonb(m) ->> 'oldest_build')::integer as oldest_build
from schema_migrations m order by number

-- name: record_migration
-- Together with the migration itself.
insert into schema_migrations (number, name, oldest_build, applied_at) values ($1, $2, $3, now())
