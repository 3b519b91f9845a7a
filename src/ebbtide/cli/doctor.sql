-- What `ebbtide doctor` asks a database; it changes nothing.

-- name: server_version
-- The server's version as a number, 150004 for 15.4.
select current_setting('server_version_num')::integer;

-- name: has_history
-- Whether any migration was ever applied here.
select to_regclass('schema_migrations') is not null;

-- name: newest_migration
-- The number of the newest migration applied, 0 for none.
select coalesce(max(number), 0) from schema_migrations;
