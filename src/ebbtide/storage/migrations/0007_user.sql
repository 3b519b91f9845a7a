-- How long the result files of a batch are wanted (a build that does not know it keeps them as long as their batch);
-- e-mail addresses of accounts; indexes of lists, and days in the figures of the request log.
-- Builds that know schema version 1 or newer may run beside it.

alter table batch_jobs add column output_seconds integer check (output_seconds > 0);

alter table accounts add column email text check (length(email) <= 254);

-- Living accounts, oldest first (accounts.page_accounts).
create index accounts_created on accounts (created_at, id) where state <> 'deleted';

-- Newest first, of one model (records.list_requests).
create index api_logs_model on api_logs (model, at, id);

-- Figures of the request log fold into days (grain 3) too.
alter table api_log_counts
    drop constraint api_log_counts_grain_check,
    add constraint api_log_counts_grain_check check (grain between 0 and 3);
create index api_log_counts_hours on api_log_counts (at) where grain = 2;
