-- Passwords, the console's sessions and the key that pays for what is done in them, attempts to sign in.
-- Builds that know schema version 1 or newer may run beside it.

alter table accounts add column password_hash text;

alter table api_keys add column managed boolean not null default false;
-- The one key that an account's sessions act with (accounts.console_key).
create unique index api_keys_managed on api_keys (account_id) where managed and revoked_at is null;

create table sessions (
    hash       bytea primary key check (octet_length(hash) = 32),
    account_id text not null references accounts (id) on delete cascade,
    key_id     text not null references api_keys (id) on delete cascade,
    created_at timestamptz not null,
    used_at    timestamptz not null,
    expires_at timestamptz not null
);
-- Ending an account's sessions (accounts.end_sessions).
create index sessions_account on sessions (account_id);
-- What is over (accounts.drop_sessions).
create index sessions_expiring on sessions (expires_at);

create table sign_in_attempts (
    subject text primary key,
    tries   integer not null check (tries > 0),
    until   timestamptz not null
);
-- What counts no longer (accounts.drop_attempts).
create index sign_in_attempts_until on sign_in_attempts (until);

create table oidc_identities (
    issuer     text not null,
    subject    text not null,
    account_id text not null references accounts (id) on delete cascade,
    created_at timestamptz not null,
    primary key (issuer, subject)
);
-- Removing an account for good takes its identities along.
create index oidc_identities_account on oidc_identities (account_id);

create table setup_code (
    singleton  boolean primary key default true check (singleton),
    hash       bytea not null check (octet_length(hash) = 32),
    created_at timestamptz not null
);
