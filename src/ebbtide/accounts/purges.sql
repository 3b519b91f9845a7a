-- Accounts that are being removed for good, or were.

-- name: lock_account
-- An account in whatever state, as it is until the transaction ends.
select id, name, state from accounts where id = $1 for no key update;

-- name: mark_deleted
-- Refuse the account's keys for good and free its name.
update accounts set state = 'deleted' where id = $1 and state <> 'deleted';

-- name: add_purge
-- Ask for an account's removal; asked again, nothing changes.
insert into account_purges (account_id, asked_at, asked_by) values ($1, $2, $3) on conflict do nothing
returning account_id;

-- name: get_purge
-- How far one account's removal is.
select account_id, asked_at, asked_by, waits_for, batches_left, files_left, rows_removed, swept_to, finished_at
from account_purges where account_id = $1;

-- name: page_purges
-- A page of removals, the last asked for first, after the one of the account $1.
select account_id, asked_at, asked_by, waits_for, batches_left, files_left, rows_removed, swept_to, finished_at
from account_purges
where $1::text is null
   or (asked_at, account_id) < (select asked_at, account_id from account_purges where account_id = $1)
order by asked_at desc, account_id desc limit $2;

-- name: knows_purge
-- Whether there is such a removal: what makes a cursor good.
select exists (select from account_purges where account_id = $1);

-- name: open_purges
-- Accounts that are still to be removed, those first that nobody has looked at for longest.
select account_id from account_purges where finished_at is null order by looked_at nulls first limit $1;

-- name: lock_purge
-- One removal that is not finished, for one process to do a step of; nothing comes back while another does.
select account_id, asked_at, asked_by, waits_for, batches_left, files_left, rows_removed, swept_to, finished_at
from account_purges where account_id = $1 and finished_at is null for update skip locked;

-- name: note_purge
-- What a step of a removal found and did.
update account_purges
set looked_at = $2, waits_for = $3, batches_left = $4, files_left = $5, rows_removed = rows_removed + $6,
    swept_to = $7, finished_at = $8
where account_id = $1;

-- name: drop_keys
-- Remove some keys of a deleted account, and the sessions that act with them.
delete from api_keys where id = any(array(select id from api_keys where account_id = $1 limit $2));

-- name: remove_account
-- Remove the row of a deleted account of which nothing else is left.
delete from accounts where id = $1 and state = 'deleted';
