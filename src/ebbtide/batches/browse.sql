-- What the console shows of batches: searched lists, requests by outcome, errors by code.

-- name: browse_batches
-- The ids and names of a page of an account's batches, newest first; by group of statuses, and by a part of the name or
-- the id.
select id, coalesce(name, metadata->>'name') as name
from batch_jobs
where account_id = $1 and deleted_at is null
  and ($2::text is null or no < (select no from batch_jobs where id = $2 and account_id = $1))
  and ($3::text is null or $3 = case
        when status = 'cancelled' then 'cancelled'
        when status in ('failed', 'expired') or (status = 'completed' and completed < total) then 'with_issues'
        when status = 'completed' then 'completed'
        else 'processing' end)
  and ($4::text is null or position(lower($4) in id) > 0
       or position(lower($4) in lower(coalesce(name, metadata->>'name'))) > 0)
order by no desc limit $5;

-- name: batch_name
-- What a batch is called.
select coalesce(name, metadata->>'name') as name from batch_jobs where no = $1;

-- name: browse_items
-- A batch's items in submission order after a cursor, each with the places of its line and its answer; by states, and
-- by a part of the custom_id.
select id, custom_id, state, request_id, segment, answer_offset, answer_length,
       error_code, error_message, error_status, attempts, model, chunk, line_offset, line_length
from batch_items
where batch_no = $1 and id > $2
  and ($3::text[] is null or state = any($3)) and ($4::text is null or position(lower($4) in lower(custom_id)) > 0)
order by id limit $5;

-- name: count_errors
-- A batch's items that ended without an answer, by what kept them from it, the most frequent first, with one of each.
select state, error_code as code, error_status as status, count(*)::int as requests,
       (array_agg(custom_id order by id))[1] as custom_id, (array_agg(error_message order by id))[1] as message
from batch_items where batch_no = $1 and state in ('failed', 'expired', 'cancelled')
group by state, error_code, error_status order by requests desc, code limit 100;
