-- What was said in requests that callers made directly, kept only while DB_STORE_FULL_CONTENT is on.

-- name: add_contents
-- Store what was said, beside the log rows of the same time and request id; nothing of accounts that were deleted.
insert into api_log_contents (at, request_id, request, answer, request_bytes, answer_bytes)
select c.* from unnest($1::timestamptz[], $2::text[], $3::bytea[], $4::bytea[], $5::bigint[], $6::bigint[])
     as c(at, request_id, request, answer, request_bytes, answer_bytes)
where not exists (
    select from api_logs l left join accounts a on a.id = l.account_id
    where l.at = c.at and l.request_id = c.request_id and coalesce(a.state, 'deleted') = 'deleted')
on conflict do nothing;

-- name: get_content
-- What was said in one request.
select request, answer, request_bytes, answer_bytes from api_log_contents where at = $1 and request_id = $2;

-- name: drop_contents
-- Remove what an account said in some of its requests, from those of the moment $2 on; how far that reached.
with looked_at as (
    select at, request_id from api_logs
    where account_id = $1 and source = 'interactive' and ($2::timestamptz is null or at >= $2) order by at limit $3
), gone as (
    delete from api_log_contents c using looked_at s where c.at = s.at and c.request_id = s.request_id returning c.at
)
select (select max(at) from looked_at) as reached, (select count(*) from looked_at) as seen, (select count(*) from gone) as removed;
