-- name: past_requests
-- description: log rows of the week before, more by day than by night; $1 rows, spread over accounts $2 with their keys $3
insert into api_logs (at, request_id, account_id, key_id, source, target, model, route, status_code, error_code,
                      input_tokens, cached_tokens, output_tokens, reasoning_tokens, cost_usd, first_token_ms, total_ms,
                      batch_job_id, metadata, attempts, streamed)
select at, 'req_' || md5(n::text), ($2::text[])[who], ($3::text[])[who], source, 'chat', model, 'gpu-a',
       case when failed then 503 else 200 end, case when failed then 'upstream_unavailable' end,
       tokens, tokens / 3, tokens / 6, 0, tokens * 0.0000004, case when source = 'interactive' then 90 + tokens / 9 end,
       400 + tokens, case when source = 'batch' then $4 end,
       case when source = 'batch' then '{"item": 1, "attempt": 1, "outcome": "completed"}'::jsonb end, 1,
       source = 'interactive'
from (
    select n, now() - make_interval(secs => 600 + 7 * 86400 * power(random(), 1.2)) as at,
           1 + floor(random() * array_length($2::text[], 1))::int as who,
           case when random() < 0.32 then 'batch' else 'interactive' end as source,
           case when random() < 0.55 then 'gpt-oss-120b' when random() < 0.6 then 'qwen3-235b' else 'llama-3.3-70b' end
               as model,
           random() < 0.012 as failed, (120 + 2600 * random() * random())::int as tokens
    from generate_series(1, $1::int) n
) drawn
where random() < 0.25 + 0.75 * power(sin(pi() * extract(hour from at) / 24), 2)

-- name: past_spend
-- description: what accounts $1 were charged with keys $2 on each of the thirty days before
insert into spend_days (account_id, key_id, day, source, requests, input_tokens, output_tokens, cost_usd)
select account_id, key_id, current_date - ago, source, 200 + amount, amount * 900, amount * 150, amount * 0.0021
from unnest($1::text[], $2::text[]) as who (account_id, key_id), generate_series(1, 29) ago,
     unnest(array['interactive', 'batch']) source, lateral (select (random() * 2400 * (1 + ago % 5))::int) drawn (amount)

-- name: date_back
-- description: gives batch $1 an age of $2 hours, so that lists have a past
update batch_jobs
set created_at = created_at - make_interval(hours => $2::int),
    in_progress_at = in_progress_at - make_interval(hours => $2::int)
where id = $1

-- name: close_window
-- description: lets the window of batch $1 close in $2 minutes
update batch_jobs set expires_at = now() + make_interval(mins => $2::int) where id = $1
