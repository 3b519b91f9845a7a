-- Batches of Messages requests: the version of the API that they are written for.
-- Builds that know schema version 1 or newer may run beside it: they make and run no such batch.

alter table batch_jobs
    add column anthropic_version text,
    add constraint batch_jobs_anthropic_version check (target = 'messages' or anthropic_version is null);
