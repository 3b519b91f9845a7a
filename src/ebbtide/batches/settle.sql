-- name: lock_batches
-- Lock the batches a settle touches, in order.
select no, closing is not null or results_full as stops, expires_at, result_bytes from batch_jobs
where no = any($1) order by no for no key update;

-- name: mark_full
-- Batches whose answers have reached their storage limit: nothing more of them starts.
update batch_jobs set results_full = true where no = any($1) and not results_full;

-- name: add_segments
-- Store compressed answers, one row per batch; ids come back in the order given.
insert into batch_result_segments (batch_no, data)
select batch_no, data from unnest($1::bigint[], $2::bytea[]) with ordinality as s(batch_no, data, n) order by n
returning id;

-- name: drop_segments
-- Answers stored in this settle that turned out to be nobody's.
delete from batch_result_segments s using unnest($1::bigint[], $2::bigint[]) as v(batch_no, id)
where s.batch_no = v.batch_no and s.id = v.id;

-- name: complete
-- Running items that succeeded, if this worker's claim still stands.
update batch_items i set state = 'completed', worker_no = null, attempts = i.attempts + 1,
    segment = v.segment, answer_offset = v.answer_offset, answer_length = v.answer_length, request_id = v.request_id,
    error_code = null, error_message = null, error_status = null
from unnest($1::bigint[], $2::bigint[], $3::int[], $4::bigint[], $5::int[], $6::int[], $7::text[])
     as v(batch_no, id, epoch, segment, answer_offset, answer_length, request_id)
where i.batch_no = v.batch_no and i.id = v.id and i.state = 'running' and i.claim_epoch = v.epoch
returning i.batch_no, i.id;

-- name: fail
-- Running items that failed for good, if this worker's claim still stands.
update batch_items i set state = 'failed', worker_no = null, attempts = i.attempts + 1, request_id = v.request_id,
    error_code = v.error_code, error_message = v.error_message, error_status = v.error_status
from unnest($1::bigint[], $2::bigint[], $3::int[], $4::text[], $5::text[], $6::int[], $7::text[])
     as v(batch_no, id, epoch, error_code, error_message, error_status, request_id)
where i.batch_no = v.batch_no and i.id = v.id and i.state = 'running' and i.claim_epoch = v.epoch
returning i.batch_no, i.id;

-- name: retry
-- Running items that wait for another try, if this worker's claim still stands; `counted` is 0 where no try was used,
-- and the error of the last one that was is kept: it is what the item ends with when its window closes.
update batch_items i set state = 'queued', worker_no = null, attempts = i.attempts + v.counted, ready_at = v.ready_at,
    error_code = case when v.counted = 0 and i.attempts > 0 then i.error_code else v.error_code end,
    error_message = case when v.counted = 0 and i.attempts > 0 then i.error_message else v.error_message end,
    error_status = case when v.counted = 0 and i.attempts > 0 then i.error_status else v.error_status end
from unnest($1::bigint[], $2::bigint[], $3::int[], $4::text[], $5::text[], $6::int[], $7::int[], $8::timestamptz[])
     as v(batch_no, id, epoch, error_code, error_message, error_status, counted, ready_at)
where i.batch_no = v.batch_no and i.id = v.id and i.state = 'running' and i.claim_epoch = v.epoch
returning i.batch_no, i.id;

-- name: hand_back
-- Running items that were never sent, if this worker's claim still stands.
update batch_items i set state = 'queued', worker_no = null
from unnest($1::bigint[], $2::bigint[], $3::int[]) as v(batch_no, id, epoch)
where i.batch_no = v.batch_no and i.id = v.id and i.state = 'running' and i.claim_epoch = v.epoch
returning i.batch_no, i.id;

-- name: count_settled
-- One delta per batch.
update batch_jobs j
set completed = j.completed + d.completed, failed = j.failed + d.failed,
    input_tokens = j.input_tokens + d.input_tokens, cached_tokens = j.cached_tokens + d.cached_tokens,
    output_tokens = j.output_tokens + d.output_tokens, reasoning_tokens = j.reasoning_tokens + d.reasoning_tokens,
    cost_usd = j.cost_usd + d.cost_usd, cost_unknown_attempts = j.cost_unknown_attempts + d.unknown,
    result_bytes = j.result_bytes + d.result_bytes
from unnest($1::bigint[], $2::int[], $3::int[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::numeric[],
            $9::int[], $10::bigint[])
     as d(batch_no, completed, failed, input_tokens, cached_tokens, output_tokens, reasoning_tokens, cost_usd, unknown,
          result_bytes)
where j.no = d.batch_no;

-- name: count_released
-- Items that left running: some wait again, the earliest of them from next_ready_at on.
update batch_queues q
set running = q.running - d.released, queued = q.queued + d.queued,
    next_ready_at = least(q.next_ready_at, d.next_ready_at)
from unnest($1::bigint[], $2::text[], $3::int[], $4::int[], $5::timestamptz[])
     as d(batch_no, model, released, queued, next_ready_at)
where q.batch_no = d.batch_no and q.model = d.model;

-- name: finish_batches
-- Batches of which every item is final: direct ones end here, those from a file get their result files next.
update batch_jobs
set phase = case when api_surface = 'openai_file' or from_file then 'sealing' else 'sealed' end,
    finalizing_at = $2,
    sealed_at = case when api_surface = 'openai_file' or from_file then null else $2::timestamptz end,
    results_expires_at = case when api_surface = 'openai_file' or from_file then null
                         else $2::timestamptz + make_interval(days => retention_days) end
where no = any($1) and phase = 'open' and completed + failed + cancelled + expired = total
returning no, phase;

-- name: drop_queues
-- A finished batch has nothing to claim.
delete from batch_queues where batch_no = any($1);

-- name: add_attempts
-- One row per try, all finished now, with its bill; null is unknown, never zero.
insert into batch_attempts
    (batch_no, item_id, claim_epoch, attempt, worker_no, model, route, outcome, started_at, finished_at, status_code,
     error_code, request_id, input_tokens, cached_tokens, output_tokens, reasoning_tokens, cost_usd)
select batch_no, item_id, claim_epoch, attempt, $1, model, route, outcome, $2::timestamptz - make_interval(secs => seconds),
       $2, status_code, error_code, request_id, input_tokens, cached_tokens, output_tokens, reasoning_tokens, cost_usd
from unnest($3::bigint[], $4::bigint[], $5::int[], $6::int[], $7::text[], $8::text[], $9::text[], $10::float8[],
            $11::int[], $12::text[], $13::text[], $14::int[], $15::int[], $16::int[], $17::int[], $18::numeric[])
     as a(batch_no, item_id, claim_epoch, attempt, model, route, outcome, seconds, status_code, error_code, request_id,
          input_tokens, cached_tokens, output_tokens, reasoning_tokens, cost_usd);
