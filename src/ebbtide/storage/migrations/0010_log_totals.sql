-- The folded figures of the request log over all accounts, so that bars of days and weeks need not be summed from those
-- of each account.
-- Builds that know schema version 1 or newer may run beside it: triggers keep the sums, whoever folds.

create table api_log_totals (
    at               timestamptz not null,       -- the beginning of the hour or the UTC day
    source           text not null,
    model            text not null,
    requests         bigint not null,
    errors           bigint not null,
    input_tokens     bigint not null,
    cached_tokens    bigint not null,
    output_tokens    bigint not null,
    reasoning_tokens bigint not null,
    cost_usd         numeric(24, 12) not null,
    cost_unknown     bigint not null,
    primary key (at, source, model)
);

create function api_log_counts_totalled() returns trigger language plpgsql as $$
declare
    sign integer := case tg_op when 'INSERT' then 1 else -1 end;
begin
    insert into api_log_totals as t
        (at, source, model, requests, errors, input_tokens, cached_tokens, output_tokens, reasoning_tokens, cost_usd,
         cost_unknown)
    select at, source, model, sign * sum(requests), sign * sum(errors), sign * sum(input_tokens),
           sign * sum(cached_tokens), sign * sum(output_tokens), sign * sum(reasoning_tokens), sign * sum(cost_usd),
           sign * sum(cost_unknown)
    from moved where grain >= 2 group by 1, 2, 3 order by 1, 2, 3
    on conflict (at, source, model) do update
    set requests = t.requests + excluded.requests, errors = t.errors + excluded.errors,
        input_tokens = t.input_tokens + excluded.input_tokens, cached_tokens = t.cached_tokens + excluded.cached_tokens,
        output_tokens = t.output_tokens + excluded.output_tokens,
        reasoning_tokens = t.reasoning_tokens + excluded.reasoning_tokens, cost_usd = t.cost_usd + excluded.cost_usd,
        cost_unknown = t.cost_unknown + excluded.cost_unknown;
    if tg_op = 'DELETE' then
        delete from api_log_totals t
        using (select distinct at, source, model from moved where grain >= 2) gone
        where (t.at, t.source, t.model) = (gone.at, gone.source, gone.model) and t.requests = 0;
    end if;
    return null;
end
$$;
create trigger api_log_counts_totalled after insert on api_log_counts
referencing new table as moved for each statement execute function api_log_counts_totalled();
create trigger api_log_counts_untotalled after delete on api_log_counts
referencing old table as moved for each statement execute function api_log_counts_totalled();

-- From here on the triggers hold back who writes figures until this is done.
insert into api_log_totals
    (at, source, model, requests, errors, input_tokens, cached_tokens, output_tokens, reasoning_tokens, cost_usd,
     cost_unknown)
select at, source, model, sum(requests), sum(errors), sum(input_tokens), sum(cached_tokens), sum(output_tokens),
       sum(reasoning_tokens), sum(cost_usd), sum(cost_unknown)
from api_log_counts where grain >= 2 group by 1, 2, 3;
