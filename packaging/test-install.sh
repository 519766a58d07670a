#!/usr/bin/env bash
# Installs the Debian package into a fresh root and uses it as a machine would: first page, rotation of logs, an upgrade and a downgrade under
# load, a configuration that is broken and mended, purge; then compares the root with what it was.
#
# packaging/test-install.sh [DIRECTORY]: with the packages in there, or those that packaging/build-deb makes. Wants root, debootstrap, curl,
# h2load (nghttp2-client) and Debian's archive. What it starts runs in namespaces of its own and ends with it.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" != --inside ]; then
    packages=$(realpath "${1:-target/debian}")
    [ -n "${1:-}" ] || packaging/build-deb "$packages" > /dev/null
    work=$(mktemp -d)
    trap 'rm -rf --one-file-system "$work"' EXIT
    debootstrap --variant=minbase --include=ca-certificates stable "$work/root" > "$work/debootstrap.log" 2>&1 ||
        { tail "$work/debootstrap.log" >&2; exit 1; }
    mkdir "$work/root/packages"
    cp "$packages"/anchorite_*.deb "$work/root/packages/1.deb"
    # The same program under another version, for the upgrade.
    dpkg-deb --raw-extract "$work/root/packages/1.deb" "$work/next"
    sed -i 's/^Version: .*/&+next/' "$work/next/DEBIAN/control"
    dpkg-deb --build "$work/next" "$work/root/packages/2.deb" > /dev/null
    unshare --mount --net --pid --ipc --uts --fork --kill-child bash "$0" --inside "$work/root"
    exit
fi

root=$2
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs run "$root/run"
ip link set lo up

# pivot_root(8), as a service cannot make namespaces beneath a plain chroot.
mkdir -p "$root/.host"
cd "$root"
pivot_root . .host
host() { chroot /.host "$@"; }
tell() { printf '%s: %s\n' "$1" "$2"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; cat /var/log/anchorite/error.log >&2 || true; exit 1; }
export PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive

# Everything that is there, but for what every installation of a package writes and what this test brings.
listing() {
    find / -xdev \( -path /proc -o -path /dev -o -path /run -o -path /.host -o -path /packages -o -path /var/lib/dpkg -o -path /var/cache \
        -o -path /tmp -o -path /var/log/dpkg.log -o -path /var/log/apt -o -path '/etc/*-' -o -path /etc/.pwd.lock \) -prune \
        -o -type f -print0 | xargs -0 sha256sum | sort -k 2
    find / -xdev \( -path /proc -o -path /dev -o -path /run -o -path /.host -o -path /packages -o -path /var/lib/dpkg -o -path /var/cache \
        -o -path /tmp \) -prune -o ! -type f -print | sort
}
page() { host curl --silent --show-error --max-time 10 "$@"; }
serves() {
    for _ in $(seq 100); do
        page --fail --output /dev/null http://127.0.0.1/ 2> /dev/null && return
        sleep 0.1
    done
    fail "no page"
}

listing > /tmp/before
began=$(date +%s%N)
dpkg --install /packages/1.deb > /tmp/install.log 2>&1 || fail "$(cat /tmp/install.log)"
# As the unit says.
start=$(sed -n 's/^ExecStart=//p' /lib/systemd/system/anchorite.service /usr/lib/systemd/system/anchorite.service 2> /dev/null | head -n 1)
$start > /tmp/service.log 2>&1 &
service=$!
serves
tell "from installation to the first page" "$((($(date +%s%N) - began) / 1000000)) ms"
tell "installed size" "$(dpkg-query --show --showformat '${Installed-Size} KiB' anchorite), depends on $(dpkg-query --show --showformat '${Depends}' anchorite)"
page http://127.0.0.1/ | grep -q "It serves" || fail "another page"
anchorite audit > /tmp/audit.log || fail "audit: $(cat /tmp/audit.log)"
[ "$(stat -c '%a %U:%G' /var/log/anchorite)" = "2750 root:adm" ] || fail "log directory: $(stat -c '%a %U:%G' /var/log/anchorite)"

# Rotation.
mv /var/log/anchorite/access.log /var/log/anchorite/access.log.1
anchorite reopen
page --output /dev/null http://127.0.0.1/after-rotation
sleep 0.3
grep -q after-rotation /var/log/anchorite/access.log || fail "the new log has no line"
tell "rotation" "the line is in the new log"

# Upgrade and downgrade under load.
load() {
    host h2load --h1 --clients 10 --requests "$1" http://127.0.0.1/ > /tmp/load.log 2>&1 &
    loader=$!
    sleep 0.5
    dpkg --install "$2" > /tmp/dpkg.log 2>&1 || fail "$(cat /tmp/dpkg.log)"
    kill -0 "$loader" || fail "the load was over before the upgrade was"
    wait "$loader" || true
    grep -q "$1 done, $1 succeeded, 0 failed" /tmp/load.log || fail "$(cat /tmp/load.log)"
    serves
    kill -0 "$service" || fail "the service has ended: $(cat /tmp/service.log)"
    tell "$3" "$(sed -n 's/^requests: //p' /tmp/load.log)"
}
program() { anchorite status --json > /tmp/status.json && readlink "/proc/$(cat /run/anchorite/anchorite.pid)/exe"; }
load 500000 /packages/2.deb "upgrade under load"
sleep 2
[ "$(program)" = /usr/bin/anchorite ] || fail "the old program still runs: $(program)"
load 500000 /packages/1.deb "downgrade under load"
sleep 2
[ "$(program)" = /usr/bin/anchorite ] || fail "the old program still runs: $(program)"

# A configuration that the new program does not take.
echo 'nonsense = 1' > /etc/anchorite/conf.d/broken.toml
dpkg --install /packages/2.deb > /tmp/dpkg.log 2>&1 || fail "an upgrade fails for a broken configuration"
grep -q "goes on serving" /tmp/dpkg.log && grep -q 'broken.toml:1:1' /tmp/dpkg.log || fail "nothing is said of it: $(cat /tmp/dpkg.log)"
serves
rm /etc/anchorite/conf.d/broken.toml
tell "broken configuration" "the program before it goes on serving, and the reason is told"

# Removed and purged: what users made stays.
mkdir -p /srv/mine && echo mine > /srv/mine/page
echo 'mine' > /var/www/html/mine.html
anchorite stop
wait "$service" || true
dpkg --purge anchorite > /tmp/purge.log 2>&1 || fail "$(cat /tmp/purge.log)"
[ -e /var/www/html/mine.html ] && [ -e /srv/mine/page ] || fail "purge took what was not its own"
rm -r /srv/mine /var/www/html/mine.html
rmdir --ignore-fail-on-non-empty /var/www/html /var/www
listing > /tmp/after
diff /tmp/before /tmp/after > /tmp/left || fail "left behind: $(cat /tmp/left)"
tell "purge" "the root is what it was"
