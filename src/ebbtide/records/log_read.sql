-- Reading the request log. Conditions that are not given are null; the plan is made for the values. What a status or an
-- error code implies, request_failed, is said too, since the index of what went wrong goes by it.

-- name: plan_for_values
-- In this transaction, plan each statement for its own values: a condition that is not given then costs nothing.
select set_config('plan_cache_mode', 'force_custom_plan', true);

-- name: one_moment
-- Let every statement of this transaction see the same moment, and change nothing.
set transaction isolation level repeatable read, read only;

-- name: list_requests
-- A page, newest first: from $1 up to, not including, $2, and before the place ($3, $4); by source, batch, account,
-- model, status, error code, whether it counts as an error, and key.
select l.id, l.at, l.request_id, l.account_id, a.name as account_name, l.key_id, k.name as key_name, l.source, l.target,
       l.model, l.route, l.status_code, l.error_code, l.input_tokens, l.cached_tokens, l.output_tokens,
       l.reasoning_tokens, l.cost_usd, l.first_token_ms, l.total_ms, l.batch_job_id,
       l.attempts as calls, l.streamed, (l.metadata ->> 'item')::bigint as item,
       (l.metadata ->> 'attempt')::integer as attempt, l.metadata ->> 'outcome' as outcome
from (
    select * from api_logs
    where at >= $1 and ($2::timestamptz is null or at < $2)
      and ($3::timestamptz is null or (at, id) < ($3, $4::bigint))
      and ($5::text is null or source = $5)
      and ($6::text is null or batch_job_id = $6)
      and ($7::text is null or account_id = $7)
      and ($8::text is null or model = $8)
      and ($13::text is null
           or key_id = $13 and account_id = (select k.account_id from api_keys k where k.id = $13))
      and ($9::smallint is null
           or status_code = $9 and case when $9 < 400 then true else request_failed(status_code, error_code) end)
      and ($10::text is null or error_code = $10 and request_failed(status_code, error_code))
      and ($11::boolean is null or case when $11 then request_failed(status_code, error_code)
                                        else not request_failed(status_code, error_code) end)
    order by at desc, id desc limit $12
) l
left join accounts a on a.id = l.account_id
left join api_keys k on k.id = l.key_id
order by l.at desc, l.id desc;

-- name: get_request
-- One row of the log, of any account or of one.
select l.id, l.at, l.request_id, l.account_id, a.name as account_name, l.key_id, k.name as key_name, l.source, l.target,
       l.model, l.route, l.status_code, l.error_code, l.input_tokens, l.cached_tokens, l.output_tokens,
       l.reasoning_tokens, l.cost_usd, l.first_token_ms, l.total_ms, l.batch_job_id,
       l.attempts as calls, l.streamed, (l.metadata ->> 'item')::bigint as item,
       (l.metadata ->> 'attempt')::integer as attempt, l.metadata ->> 'outcome' as outcome
from api_logs l
left join accounts a on a.id = l.account_id
left join api_keys k on k.id = l.key_id
where l.at = $1 and l.id = $2 and ($3::text is null or l.account_id = $3);

-- name: count_requests
-- The figures of stretches of length $3 from $1 up to, not including, $2, by source; of one model ($4) or of all. Folded
-- figures are summed over accounts already; those of the last hours and loose ones are not.
select date_bin($3, at, 'epoch') as start, source, sum(requests)::bigint as requests, sum(errors)::bigint as errors,
       sum(input_tokens)::bigint as input_tokens, sum(cached_tokens)::bigint as cached_tokens,
       sum(output_tokens)::bigint as output_tokens, sum(reasoning_tokens)::bigint as reasoning_tokens,
       sum(cost_usd) as cost_usd, sum(cost_unknown)::bigint as cost_unknown
from (
    select at, source, model, requests, errors, input_tokens, cached_tokens, output_tokens, reasoning_tokens, cost_usd,
           cost_unknown
    from api_log_totals where at >= $1 and at < $2
    union all
    select at, source, model, requests, errors, input_tokens, cached_tokens, output_tokens, reasoning_tokens, cost_usd,
           cost_unknown
    from api_log_counts where grain = 1 and at >= $1 and at < $2
    union all
    select at, source, model, requests, errors, input_tokens, cached_tokens, output_tokens, reasoning_tokens, cost_usd,
           cost_unknown
    from api_log_counts where grain = 0 and at >= $1 and at < $2
) figures
where $4::text is null or model = $4
group by 1, 2;

-- name: usage_by_key
-- What an account was charged from day $2 to day $3, both included, by day, key and source.
select s.day, s.key_id, k.name as key_name, s.source, s.requests, s.input_tokens, s.output_tokens, s.cost_usd
from spend_days s left join api_keys k on k.id = s.key_id
where s.account_id = $1 and s.day between $2 and $3
order by s.day desc, s.key_id, s.source;

-- name: usage_by_model
-- What an account's requests of these days used, by day, model and source, as the request log has it.
select (at at time zone 'UTC')::date as day, model, source, sum(requests)::bigint as requests,
       sum(errors)::bigint as errors, sum(input_tokens)::bigint as input_tokens,
       sum(cached_tokens)::bigint as cached_tokens, sum(output_tokens)::bigint as output_tokens,
       sum(reasoning_tokens)::bigint as reasoning_tokens, sum(cost_usd) as cost_usd,
       sum(cost_unknown)::bigint as cost_unknown
from api_log_counts
where account_id = $1
  and at >= $2::date::timestamp at time zone 'UTC' and at < ($3::date + 1)::timestamp at time zone 'UTC'
group by 1, 2, 3 order by 1 desc, 2, 3;
