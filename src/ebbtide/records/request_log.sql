-- name: start_group
-- Note that a process writes its group of rows no. $2 in this transaction; no row when it has been written before.
insert into request_log_groups as g (process, no, written_at) values ($1, $2, now())
on conflict (process) do update set no = excluded.no, written_at = excluded.written_at where g.no < excluded.no
returning no;

-- name: forget_groups
-- Processes that are gone can write no group again.
delete from request_log_groups where process = $1 or written_at < now() - interval '1 day';
