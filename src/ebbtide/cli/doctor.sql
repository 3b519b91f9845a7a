-- What `ebbtide doctor` asks a database; it changes nothing.

-- name: server_version
-- The server's version as a number, 150004 for 15.4.
select current_setting('server_version_num')::integer;

-- name: living_workers
-- The workers that live, oldest first.
select host, pid, version, schema_version from workers where ended_at is null and lease_until > now() order by no;
