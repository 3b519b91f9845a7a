-- Uploads that come in parts.

-- name: begin_upload
-- An upload of which nothing has come yet.
insert into file_uploads (token, account_id, filename, size, created_at, expires_at)
values ($1, $2, $3, $4, $5, $6);

-- name: count_open_uploads
-- How many of an account are under way, and what has come of them.
select count(*)::int as uploads, coalesce(sum(received), 0)::bigint as bytes from file_uploads
where account_id = $1 and file_id is null and expires_at > $2;

-- name: find_upload
-- One that is under way, or has come to its file.
select account_id, filename, size, received, file_id from file_uploads where token = $1 and expires_at > $2;

-- name: lock_upload
-- The same, held until the transaction ends.
select account_id, filename, size, received, file_id from file_uploads
where token = $1 and expires_at > $2 for no key update;

-- name: add_part
-- Bytes that follow what has come so far.
insert into file_upload_parts (token, start, data) values ($1, $2, $3);

-- name: receive
-- So much has come.
update file_uploads set received = $2 where token = $1;

-- name: read_part
-- The part that begins at a place.
select data from file_upload_parts where token = $1 and start = $2;

-- name: finish_upload
-- It came to a file.
update file_uploads set file_id = $2 where token = $1;

-- name: drop_parts
-- Forget what has come: it lies in the file now.
delete from file_upload_parts where token = $1;

-- name: drop_upload
-- Its caller gave it up.
delete from file_uploads where token = $1;

-- name: expire_uploads
-- Forget those whose time is over.
delete from file_uploads where token = any (array(select token from file_uploads where expires_at <= $1 limit $2));

-- name: drop_account_uploads
-- Forget those of an account.
delete from file_uploads where account_id = $1;
