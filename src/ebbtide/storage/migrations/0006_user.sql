-- How long the result files of a batch are wanted (a build that does not know it keeps them as long as their batch); and
-- e-mail addresses of accounts.
-- Builds that know schema version 1 or newer may run beside it.

alter table batch_jobs add column output_seconds integer check (output_seconds > 0);

alter table accounts add column email text check (length(email) <= 254);
