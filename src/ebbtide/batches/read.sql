-- name: get_batches
-- Batches by id that have not been deleted; why they wait is told where a moment is given.
select no, id, account_id, key_id, api_surface, target, input_id, output_id, error_id, metadata, completion_window,
       retention_days, phase, closing, status, error_code, error_message, errors, created_at, in_progress_at,
       expires_at, closing_at, finalizing_at, sealed_at, results_expires_at, total, completed, failed, cancelled,
       expired, input_tokens, cached_tokens, output_tokens, reasoning_tokens, cost_usd, cost_unknown_attempts, version,
       model, anthropic_version, from_file,
       case when phase = 'open' and closing is null and $2::timestamptz is not null
            then batch_blocked_reason(no, account_id, key_id, $2, $3) end as blocked_reason,
       $2::timestamptz as read_at
from batch_jobs where id = any($1) and deleted_at is null;

-- name: list_batches
-- The ids of a page of an account's batches, newest first.
select id from batch_jobs
where account_id = $1 and deleted_at is null
  and ($2::text is null or no < (select no from batch_jobs where id = $2 and account_id = $1))
order by no desc limit $3;

-- name: knows_batch
-- Whether an account has, or had, a batch of this id: what makes a cursor good.
select exists (select from batch_jobs where id = $2 and account_id = $1);

-- name: list_items
-- A batch's items in submission order, from after a cursor on.
select id, custom_id, state, request_id, segment, answer_offset, answer_length,
       error_code, error_message, error_status, attempts
from batch_items where batch_no = $1 and id > $2 order by id limit $3;

-- name: list_stored
-- The same, each with the place of its request line.
select id, custom_id, state, request_id, segment, answer_offset, answer_length,
       error_code, error_message, error_status, attempts, model, chunk, line_offset, line_length
from batch_items where batch_no = $1 and id > $2 order by id limit $3;

-- name: knows_item
-- Whether a batch has this item: what makes a cursor good.
select exists (select from batch_items where batch_no = $1 and id = $2);

-- name: read_segments
-- Compressed answers by segment.
select id, data from batch_result_segments where batch_no = $1 and id = any($2);
