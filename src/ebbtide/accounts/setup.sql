-- The one-time code of first-run set-up.

-- name: is_open
-- Whether no living account can sign in with a password.
select not exists (select from accounts where password_hash is not null and state <> 'deleted') as open;

-- name: add_code
-- One row for the one process that makes the code; none while there is one, or once an account has a password.
insert into setup_code (hash, created_at)
select $1, $2
where not exists (select from accounts where password_hash is not null and state <> 'deleted')
on conflict (singleton) do nothing
returning singleton;

-- name: renew_code
-- Another code in place of the one before; no row once an account has a password.
insert into setup_code (hash, created_at)
select $1, $2
where not exists (select from accounts where password_hash is not null and state <> 'deleted')
on conflict (singleton) do update set hash = excluded.hash, created_at = excluded.created_at
returning singleton;

-- name: holds
-- Whether this is the code.
select exists (select from setup_code where hash = $1) as holds;

-- name: use_code
-- The code is used up; no row when it is not the one, or when an account has a password.
delete from setup_code
where hash = $1 and not exists (select from accounts where password_hash is not null and state <> 'deleted')
returning singleton;
