-- Stored run-time settings: one row for each that was set, its value as it was typed.

-- name: lock_settings
-- Let one change at a time through, and every reader: what a change replaces is then what it noted.
lock table settings in share row exclusive mode;

-- name: list_stored
-- Every stored setting, also those that this build does not know.
select name, value, updated_at, updated_by from settings order by name;

-- name: put_setting
-- Store a setting, or replace what is stored.
insert into settings (name, value, updated_at, updated_by)
values ($1, $2, $3, $4)
on conflict (name) do update
set value = excluded.value, updated_at = excluded.updated_at, updated_by = excluded.updated_by;

-- name: remove_setting
-- Forget a stored setting.
delete from settings where name = $1;
