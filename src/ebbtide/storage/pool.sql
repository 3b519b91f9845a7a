-- name: own_process
-- The server process that runs this query; behind a pooler it is another one than the connection was told.
select pg_backend_pid();

-- name: check
-- Whether the server answers.
select 1;

-- name: end_when_idle
-- Let the server end this transaction when nothing happens in it for so many milliseconds.
select set_config('idle_in_transaction_session_timeout', $1, true);
