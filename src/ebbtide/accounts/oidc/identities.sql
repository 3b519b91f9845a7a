-- Who signs in by OpenID Connect as which account.

-- name: find_account
-- The living account that an identity signs in as.
select a.id, a.name, a.role, a.state, a.created_at, a.email
from oidc_identities i join accounts a on a.id = i.account_id
where i.issuer = $1 and i.subject = $2 and a.state <> 'deleted';

-- name: add_identity
-- Link an identity to an account; one whose account was deleted may be linked again. No row when it is linked.
insert into oidc_identities as i (issuer, subject, account_id, created_at) values ($1, $2, $3, $4)
on conflict (issuer, subject) do update set account_id = excluded.account_id, created_at = excluded.created_at
where exists (select from accounts a where a.id = i.account_id and a.state = 'deleted')
returning account_id;
