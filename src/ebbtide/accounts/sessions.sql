-- Passwords, sessions, and attempts to sign in.

-- name: find_password
-- An acting account by its name, with its password's hash.
select id, role, password_hash from accounts where name = $1 and state = 'active' and password_hash is not null;

-- name: find_own_password
-- The same by its id.
select name, password_hash from accounts where id = $1 and state = 'active';

-- name: set_password
-- Give a living account a password (its hash).
update accounts set password_hash = $2 where id = $1 and state <> 'deleted' returning name;

-- name: renew_hash
-- Store the same password hashed with newer parameters, unless it was changed meanwhile.
update accounts set password_hash = $3 where id = $1 and password_hash = $2;

-- name: add_console_key
-- The key that an account's sessions act with, unless there is one that holds.
insert into api_keys (id, account_id, name, prefix, hash, created_at, managed)
values ($1, $2, 'console', $3, $4, $5, true)
on conflict (account_id) where managed and revoked_at is null do nothing;

-- name: console_key
-- The key that an account's sessions act with.
select id from api_keys where account_id = $1 and managed and revoked_at is null;

-- name: add_session
-- A new session of an account that may act and whose password is still the one that was checked (null: none was).
insert into sessions (hash, account_id, key_id, created_at, used_at, expires_at)
select $1, id, $3, $5, $5, $6
from accounts
where id = $2 and state = 'active' and ($4::text is null or password_hash = $4)
for share
returning account_id;

-- name: find_session
-- Whose session this is, if it, its key and its account may act at the time $2; idle ones ($3) may not.
select s.account_id, s.key_id, a.role, s.used_at
from sessions s join accounts a on a.id = s.account_id join api_keys k on k.id = s.key_id
where s.hash = $1 and s.expires_at > $2 and s.used_at > $2 - $3::interval
  and a.state = 'active' and k.revoked_at is null;

-- name: list_sessions
-- The sessions of an account that are not over at the time $2, the last used first.
select created_at, used_at, expires_at from sessions
where account_id = $1 and expires_at > $2 order by used_at desc, hash;

-- name: touch_session
-- The session was used.
update sessions set used_at = greatest(used_at, $2) where hash = $1;

-- name: end_session
-- Sign out of one session.
delete from sessions where hash = $1 returning account_id;

-- name: end_sessions
-- End the sessions of an account, all but the one of the hash $2 (null: all of them).
delete from sessions where account_id = $1 and ($2::bytea is null or hash <> $2) returning hash;

-- name: drop_sessions
-- Remove sessions that are over, a bounded number at a time.
delete from sessions where hash in (
    select hash from sessions where expires_at <= $1 limit 100 for update skip locked
);

-- name: count_attempt
-- One more attempt of the subject $1 within its time, which starts anew at $2 and ends at $3.
insert into sign_in_attempts as a (subject, tries, until) values ($1, 1, $3)
on conflict (subject) do update
set tries = case when a.until <= $2 then 1 else a.tries + 1 end,
    until = case when a.until <= $2 then $3 else a.until end
returning tries, until;

-- name: forget_attempts
-- A subject signed in.
delete from sign_in_attempts where subject = $1;

-- name: drop_attempts
-- Remove attempts that count no longer, a bounded number at a time.
delete from sign_in_attempts where subject in (
    select subject from sign_in_attempts where until <= $1 limit 100 for update skip locked
);
