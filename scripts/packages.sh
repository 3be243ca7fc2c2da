# Installs Debian packages for the other scripts here; source it.
#
# Nothing is asked, no service is started, and a run beside another one (or
# beside the machine's own upgrades) waits for its turn.
# shellcheck shell=bash

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# install_packages WHY PACKAGE... installs what is missing. As another user than
# root, or where there is no apt, it says what to install and fails.
install_packages() {
    local why=$1 missing=() p
    shift
    for p in "$@"; do
        dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null | grep -qx installed || missing+=("$p")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null ||
        die "$why needs the packages ${missing[*]} (names as in Debian); install them with this system's package manager and try again."
    [ "$(id -u)" = 0 ] ||
        die "$why needs packages that are not installed. Install them and try again: sudo apt-get install --no-install-recommends ${missing[*]}"
    say "installing ${missing[*]} from the system's package archive"
    without_services apt_install "${missing[@]}"
}

# apt_install installs with the lists that are there, and fetches new ones when
# that fails: a fresh machine has none, an old one has stale ones.
apt_install() {
    local opts=(-qq -y --no-install-recommends -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0)
    export DEBIAN_FRONTEND=noninteractive
    if ! apt-get install "${opts[@]}" "$@" >/dev/null 2>&1; then
        apt-get update -qq -o DPkg::Lock::Timeout=600 >&2
        apt-get install "${opts[@]}" "$@" >/dev/null
    fi
}

# without_services runs a command while packages may not start services: the
# machine's own policy stays if it has one (policy-rc.d, see invoke-rc.d(8)).
without_services() (
    local policy=/usr/sbin/policy-rc.d
    exec 9>/var/lock/sandboxd-packages.lock
    flock 9
    if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    "$@" 9>&-
)
