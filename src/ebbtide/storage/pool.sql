-- name: own_process
-- The server process that runs this query; behind a pooler it is another one than the connection was told.
select pg_backend_pid();

-- name: check
-- Whether the server answers.
select 1;
