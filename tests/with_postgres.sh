#!/usr/bin/env bash
# Runs a command with a PostgreSQL of the system (Debian's, not the embedded one) for the tests:
#
#   tests/with_postgres.sh [--pgbouncer] pytest …
#
# Starts a private cluster in a temporary folder, with --pgbouncer also a PgBouncer in transaction mode before it, tells
# the tests by EBBTIDE_TEST_DATABASE_URL, …_ADMIN_URL and …_LISTEN_URL, and leaves nothing behind. Of apt it needs
# postgresql (15 or newer) and, for --pgbouncer, pgbouncer.
set -eu

pooled=
if [ "${1:-}" = --pgbouncer ]; then
    pooled=1
    shift
fi
if [ $# -eq 0 ]; then
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi

fail() {
    echo "with_postgres.sh: $*" >&2
    exit 1
}

bin=${EBBTIDE_TEST_POSTGRES_BIN:-$(find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)}
[ -x "$bin/postgres" ] || fail "no PostgreSQL below /usr/lib/postgresql (apt-get install postgresql)"
bouncer=$(PATH=$PATH:/usr/sbin command -v pgbouncer || true)
[ -z "$pooled" ] || [ -n "$bouncer" ] || fail "no pgbouncer (apt-get install pgbouncer)"

# Neither program runs as root.
as=()
if [ "$(id -u)" = 0 ]; then
    user=postgres
    id "$user" >/dev/null 2>&1 || user=nobody
    as=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups)
fi

folder=$(mktemp -d /tmp/ebb-pg-XXXXXX)
bouncer_pid=
stop() {
    code=$?
    trap - EXIT
    if [ -n "$bouncer_pid" ]; then
        kill "$bouncer_pid" 2>/dev/null || true
        wait "$bouncer_pid" 2>/dev/null || true
    fi
    if [ -f "$folder/data/postmaster.pid" ]; then
        "${as[@]}" "$bin/pg_ctl" -D "$folder/data" -m immediate -w stop >/dev/null || true
    fi
    rm -rf "$folder"
    exit "$code"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
[ ${#as[@]} -eq 0 ] || chown "$user" "$folder"
cd "$folder"

"${as[@]}" "$bin/initdb" -D data -U postgres -A trust -E UTF8 --locale=C --no-sync >log 2>&1 || fail "initdb: $(cat log)"
# Ports only name the sockets here; nothing listens on TCP.
"${as[@]}" "$bin/pg_ctl" -D data -l "$folder/data/log" -w -o "-k $folder -p 5432 -c listen_addresses= -c max_connections=200 -c fsync=off" start >log 2>&1 ||
    fail "start: $(cat log data/log)"
direct="postgresql://postgres@/postgres?host=$folder&port=5432"
url=$direct

if [ -n "$pooled" ]; then
    cat >bouncer.ini <<INI
[databases]
* = host=$folder port=5432
[pgbouncer]
unix_socket_dir = $folder
listen_port = 6432
auth_type = any
pool_mode = transaction
max_client_conn = 1000
default_pool_size = 10
server_idle_timeout = 5
logfile = $folder/bouncer.log
pidfile = $folder/bouncer.pid
INI
    # auth_type any knows no user of its own, so each database names the one to use.
    sed -i "s/^\* = .*/& user=postgres/" bouncer.ini
    [ ${#as[@]} -eq 0 ] || chown "$user" bouncer.ini
    "${as[@]}" "$bouncer" -q bouncer.ini >bouncer.out 2>&1 &
    bouncer_pid=$!
    for _ in $(seq 100); do
        [ -S "$folder/.s.PGSQL.6432" ] && break
        kill -0 "$bouncer_pid" 2>/dev/null || fail "pgbouncer: $(cat bouncer.out bouncer.log 2>/dev/null)"
        sleep 0.05
    done
    url="postgresql://postgres@/postgres?host=$folder&port=6432"
fi

export EBBTIDE_TEST_DATABASE_URL=$url EBBTIDE_TEST_ADMIN_URL=$direct EBBTIDE_TEST_LISTEN_URL=$direct
cd "$OLDPWD"
"$@"
