-- Input files that are a batch's own copy of another one's requests, with what was chosen for every request of them.
-- Builds that know schema version 1 or newer may run beside it: they list such copies among the files.

alter table batch_files
    add column source_id text,
    add constraint batch_files_source check (source_id is null or purpose = 'batch');

-- The copies of a file (files.delete_file).
create index batch_files_copies on batch_files (source_id) where source_id is not null;
