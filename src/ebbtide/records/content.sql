-- What was said in requests that callers made directly, kept only while DB_STORE_FULL_CONTENT is on.

-- name: add_contents
-- Store what was said, beside the log rows of the same time and request id.
insert into api_log_contents (at, request_id, request, answer, request_bytes, answer_bytes)
select * from unnest($1::timestamptz[], $2::text[], $3::bytea[], $4::bytea[], $5::bigint[], $6::bigint[])
on conflict do nothing;

-- name: get_content
-- What was said in one request.
select request, answer, request_bytes, answer_bytes from api_log_contents where at = $1 and request_id = $2;
