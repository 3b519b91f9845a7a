-- name: begin_reading
-- Somebody reads a batch's results or a file: what it reads stays until it is done, or until the lease runs out.
insert into batch_read_leases (batch_no, file_id, expires_at)
values ($1, $2, now() + make_interval(secs => $3)) returning id;

-- name: end_reading
-- The reader is done; leases that ran out go with it.
delete from batch_read_leases where id = $1 or expires_at <= now();
