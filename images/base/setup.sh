#!/bin/sh
# Turns a root filesystem with the packages of the list into sandboxd/base:
#
#   setup.sh [ROOT]     ROOT is / unless given
#
# Both ways to build the image end with it.
set -eu
root=${1:-}

# The user that commands run as. Its home is replaced by a tmpfs in a box.
grep -q '^sandbox:' "$root/etc/passwd" ||
    echo 'sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/bash' >>"$root/etc/passwd"
grep -q '^sandbox:' "$root/etc/group" || echo 'sandbox:x:1000:' >>"$root/etc/group"
mkdir -p "$root/home/sandbox" "$root/workspace"
chown 1000:1000 "$root/home/sandbox" "$root/workspace"

# No program may give its user more rights than it has: no_new_privs says so in
# every box, and a box that was misconfigured must find none either.
find "$root/" -xdev -type f -perm /6000 -exec chmod ug-s {} +

# Left out: what only an installation needs. Licences stay.
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* "$root"/var/cache/debconf/*-old \
    "$root"/var/log/* "$root"/tmp/* "$root"/usr/share/man/* "$root"/usr/share/info/* \
    "$root"/usr/share/lintian "$root"/usr/share/bash-completion
find "$root/usr/share/doc" -mindepth 2 ! -name copyright ! -type d -delete
find "$root/usr/share/locale" -mindepth 1 -maxdepth 1 -exec rm -rf {} +

# Nothing of the machine that built it: package sources, proxies, credentials,
# its name and its resolver.
rm -rf "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/* "$root"/etc/apt/auth.conf* \
    "$root"/etc/apt/apt.conf.d/99mmdebstrap "$root"/etc/apt/apt.conf
rm -f "$root/etc/machine-id" "$root/var/lib/dbus/machine-id"
for f in hostname resolv.conf; do
    # In a build container the engine has mounted these: they are not in the image.
    rm -f "$root/etc/$f" 2>/dev/null || :
done
echo sandbox >"$root/etc/hostname" 2>/dev/null || :
