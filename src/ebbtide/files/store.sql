-- name: lock_account
-- Take a living account's row, which serialises what counts against its limits.
select id from accounts where id = $1 and state <> 'deleted' for no key update;

-- name: count_uploads
-- How many input files an account has uploaded since a moment, deleted ones included: what is kept and what is hidden
-- have an index each.
select (select count(*) from batch_files
        where account_id = $1 and purpose = 'batch' and created_at > $2 and deleted_at is null)
     + (select count(*) from batch_files
        where account_id = $1 and purpose = 'batch' and created_at > $2 and deleted_at > $2);

-- name: stored_bytes
-- What an account's uploaded input files weigh.
select coalesce(sum(bytes), 0)::bigint from batch_files
where account_id = $1 and deleted_at is null and purpose = 'batch';

-- name: insert_file
-- A file whose chunks are stored in the same transaction.
insert into batch_files
    (id, account_id, batch_id, purpose, state, filename, bytes, sha256, created_at, expires_at, source_id)
values ($1, $2, $3, $4, 'stored', $5, $6, $7, $8, $9, $10);

-- name: begin_file
-- A result file that is being written.
insert into batch_files (id, account_id, batch_id, purpose, state, filename, created_at)
values ($1, $2, $3, 'batch_output', 'writing', $4, $5);

-- name: hold_unfinished
-- Keep a half-written result file from being dropped while more of it is stored; nothing comes back once it was.
select id from batch_files where id = $1 and state = 'writing' for key share;

-- name: finish_file
-- Fix a result file's size and digest: from here on its bytes never change.
update batch_files set state = 'stored', bytes = $2, sha256 = $3, created_at = $4, expires_at = $5
where id = $1 and state = 'writing';

-- name: drop_unfinished
-- Forget the half-written result files of a batch.
with gone as (delete from batch_files where batch_id = $1 and state = 'writing' returning id)
delete from batch_file_chunks where file_id in (select id from gone);

-- name: drop_files
-- Forget result files that were written in vain.
with gone as (delete from batch_files where id = any($1) and state = 'writing' returning id)
delete from batch_file_chunks where file_id in (select id from gone);

-- name: get_file
-- One visible file.
select id, account_id, batch_id, purpose, filename, bytes as size, sha256, created_at, expires_at, source_id
from batch_files
where id = $1 and state = 'stored' and deleted_at is null and purpose <> 'batch_direct'
  and (expires_at is null or expires_at > $2);

-- name: list_newest
-- A page of an account's files, newest first.
select id, account_id, batch_id, purpose, filename, bytes as size, sha256, created_at, expires_at from batch_files
where account_id = $1 and state = 'stored' and deleted_at is null and purpose <> 'batch_direct' and source_id is null
  and (expires_at is null or expires_at > $2)
  and ($3::text is null or purpose = $3)
  and ($4::text is null or no < (select no from batch_files where id = $4 and account_id = $1))
order by no desc limit $5;

-- name: list_oldest
-- A page of an account's files, oldest first.
select id, account_id, batch_id, purpose, filename, bytes as size, sha256, created_at, expires_at from batch_files
where account_id = $1 and state = 'stored' and deleted_at is null and purpose <> 'batch_direct' and source_id is null
  and (expires_at is null or expires_at > $2)
  and ($3::text is null or purpose = $3)
  and ($4::text is null or no > (select no from batch_files where id = $4 and account_id = $1))
order by no limit $5;

-- name: hold_source
-- When an account's upload goes, kept from being deleted meanwhile; copies have no copies.
select expires_at from batch_files
where id = $1 and account_id = $2 and purpose = 'batch' and source_id is null and deleted_at is null and expires_at > $3
for share;

-- name: knows_file
-- Whether an account has, or had, a file of this id: what makes a cursor good.
select exists (select from batch_files where id = $2 and account_id = $1 and purpose <> 'batch_direct');

-- name: delete_file
-- Hide a file with its copies and free their quota; their chunks go when no batch needs them any more.
update batch_files set deleted_at = $2 where (id = $1 or source_id = $1) and deleted_at is null;

-- name: delete_batch_files
-- Hide everything that belongs to a batch: result files, the lines of a direct create, its own copy of a file.
update batch_files set deleted_at = $2
where deleted_at is null and (batch_id = $1 or (id = $3 and (purpose = 'batch_direct' or source_id is not null)));

-- name: expire_files
-- Hide files whose time is over.
update batch_files set deleted_at = $1
where id in (select id from batch_files where expires_at <= $1 and deleted_at is null order by expires_at limit $2);

-- name: removable_files
-- Hidden files that nobody reads and no batch needs; those of an account that is being removed go with it. Of uploads
-- after $2 the rows still count: only their chunks go.
select f.id from batch_files f
where f.deleted_at <= $1 and not exists (select from batch_jobs j where j.input_id = f.id)
  and (f.purpose <> 'batch' or f.created_at <= $2 or exists (select from batch_file_chunks c where c.file_id = f.id))
  and not exists (select from account_purges p where p.account_id = f.account_id and p.finished_at is null)
  and not exists (select from batch_read_leases l where l.file_id = f.id and l.expires_at > now())
order by f.deleted_at limit $3;

-- name: purge_chunks
-- Remove some chunks of a file; the caller repeats until none is left.
delete from batch_file_chunks where file_id = $1 and chunk in (
    select chunk from batch_file_chunks where file_id = $1 limit $2);

-- name: purge_file
-- Remove the row of a file whose chunks are gone, unless it is an upload after $2.
delete from batch_files where id = $1 and (purpose <> 'batch' or created_at <= $2);

-- name: read_chunks
-- The next chunks of a file from a raw offset on.
select chunk, raw_offset, raw_length, data from batch_file_chunks
where file_id = $1 and raw_offset >= coalesce(
    (select max(raw_offset) from batch_file_chunks where file_id = $1 and raw_offset <= $2), 0)
order by raw_offset limit $3;

-- name: read_chunk
-- One chunk.
select data from batch_file_chunks where file_id = $1 and chunk = $2;

-- name: hide_account_files
-- Hide some files of an account that is being removed; result files go with their batch, unless it is gone.
update batch_files set deleted_at = $2
where id = any(array(
    select id from batch_files f
    where account_id = $1 and deleted_at is null and purpose <> 'batch_direct'
      and (purpose = 'batch' or not exists (
          select from batch_jobs j where j.id = f.batch_id and j.deleted_at is null))
    limit $3)) and deleted_at is null;

-- name: removable_account_files
-- Hidden files of an account that nobody reads and no batch needs.
select f.id from batch_files f
where f.account_id = $1 and f.deleted_at is not null and f.deleted_at <= $2
  and not exists (select from batch_jobs j where j.input_id = f.id)
  and not exists (select from batch_read_leases l where l.file_id = f.id and l.expires_at > now())
order by f.deleted_at limit $3;

-- name: standing_of_account
-- How many files an account has, hidden ones too, and whether any hidden one is being read.
select count(*) as left, coalesce(bool_or(deleted_at is not null and exists (
           select from batch_read_leases l where l.file_id = f.id and l.expires_at > now())), false) as readers
from (
    select id, deleted_at from batch_files
    where account_id = $1 and deleted_at is null and purpose <> 'batch_direct'
    union all
    select id, deleted_at from batch_files where account_id = $1 and deleted_at is not null
) f;
