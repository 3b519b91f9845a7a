-- What Gemini's own API asks of the batches that were made through it.

-- name: knows_gemini_batch
-- Whether an account has, or had, such a batch: what makes a cursor good.
select exists (select from batch_jobs where id = $2 and account_id = $1 and api_surface = 'gemini');

-- name: list_gemini_batches
-- Their ids, newest first, those older than $2.
select id from batch_jobs
where account_id = $1 and deleted_at is null and api_surface = 'gemini'
  and ($2::text is null or no < (select no from batch_jobs where id = $2 and account_id = $1))
order by no desc limit $3;

-- name: read_details
-- What they are called, and their priorities.
select no, name, priority from batch_jobs where no = any($1);
