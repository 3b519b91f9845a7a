-- How long the result files of a batch are wanted. A build that does not know it keeps them as long as their batch.
-- Builds that know schema version 1 or newer may run beside it.

alter table batch_jobs add column output_seconds integer check (output_seconds > 0);
