-- name: notify
-- Tells everyone who listens on the channel, when the transaction commits.
select pg_notify($1, '')

-- name: check_alive
-- Whether the connection still answers.
select 1
