-- Batches of one account that were made through Anthropic's own Message Batches.

-- name: knows_message_batch
-- Whether an account has, or had, such a batch: what makes a cursor good.
select exists (select from batch_jobs where id = $2 and account_id = $1 and api_surface = 'anthropic');

-- name: list_older
-- Their ids, newest first, those older than $2.
select id from batch_jobs
where account_id = $1 and deleted_at is null and api_surface = 'anthropic'
  and ($2::text is null or no < (select no from batch_jobs where id = $2 and account_id = $1))
order by no desc limit $3;

-- name: list_newer
-- Their ids, oldest first, those newer than $2.
select id from batch_jobs
where account_id = $1 and deleted_at is null and api_surface = 'anthropic'
  and no > (select no from batch_jobs where id = $2 and account_id = $1)
order by no limit $3;
