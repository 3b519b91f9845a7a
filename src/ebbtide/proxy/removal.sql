-- What an account that is being removed still holds for interactive requests.

-- name: runs_requests
-- Whether a living process has requests of the account running, as its slots tell.
select exists (select from interactive_slots where account_id = $1 and slots > 0 and lease_until > now());

-- name: drop_account_slots
-- The slots of an account of which nothing runs.
delete from interactive_slots where account_id = $1;

-- name: drop_account_reservations
-- What its requests might have cost.
delete from interactive_reservations where account_id = $1;
