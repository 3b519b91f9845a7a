-- name: add_charges
-- Add known bills to an account's day, by key and source.
insert into spend_days (account_id, key_id, day, source, requests, input_tokens, output_tokens, cost_usd)
select account_id, key_id, $1, source, requests, input_tokens, output_tokens, cost_usd
from unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::numeric[])
     as c(account_id, key_id, source, requests, input_tokens, output_tokens, cost_usd)
on conflict (account_id, day, key_id, source) do update
set requests = spend_days.requests + excluded.requests,
    input_tokens = spend_days.input_tokens + excluded.input_tokens,
    output_tokens = spend_days.output_tokens + excluded.output_tokens,
    cost_usd = spend_days.cost_usd + excluded.cost_usd;
