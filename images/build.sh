#!/usr/bin/env bash
# Builds an image from the system's Debian or Ubuntu packages, with no registry
# and no engine, and loads it where an engine answers.
#
#   images/build.sh [--fresh] [--tar] [base]
#
#   --tar     only make the root filesystem's tar; load it into no engine
#   --fresh   build again although a tar of this very definition is cached,
#             for newer packages
#
# The tar's path is printed on standard output. Tars are kept under
# $SANDBOXD_CACHE (else $XDG_CACHE_HOME/sandboxd, else ~/.cache/sandboxd), by
# the hash of the definition, since an engine for tests is often a new one.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/packages.sh
. "$here/../scripts/packages.sh"

fresh='' tar_only='' name=base
for arg in "$@"; do
    case $arg in
    --fresh) fresh=1 ;;
    --tar) tar_only=1 ;;
    -*) die "usage: images/build.sh [--fresh] [--tar] [base]" ;;
    *) name=$arg ;;
    esac
done
definition=$here/$name
[ -f "$definition/packages" ] || die "there is no image definition $name in images/; there is: $(cd "$here" && ls -d ./*/ | tr -d './' | xargs)"

# shellcheck source=/dev/null
codename=$(. /etc/os-release 2>/dev/null && printf %s "${VERSION_CODENAME:-}")
[ -n "$codename" ] || die "this system is neither Debian nor Ubuntu; build images/$name/Dockerfile with Docker instead: docker build -t sandboxd/$name images/$name"
architecture=$(dpkg --print-architecture)
hash=$(cat "$definition/packages" "$definition/setup.sh" "$here/build.sh" | { cat; echo "$codename $architecture"; } | sha256sum | cut -c1-16)

cache=${SANDBOXD_CACHE:-${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/sandboxd}/images
mkdir -p "$cache"
tar=$cache/$name-$hash.tar

# host_apt copies what this machine's apt knows about the way to its archive:
# proxies, checks and credentials. setup.sh removes all of it at the end.
host_apt() {
    apt-config dump | grep -E '^Acquire::(http|https|ftp|Check-Valid-Until|Check-Date|Retries|ForceIPv4|Languages)\b.* "[^"]' || true
}

# host_sources lists this machine's package sources, the deb822 ones first.
host_sources() {
    local f
    for f in /etc/apt/sources.list.d/*.sources /etc/apt/sources.list; do
        if [ -s "$f" ] && grep -qE '(^URIs|^deb ).*(debian|ubuntu)' "$f"; then echo "$f"; fi
    done
}

build() {
    local work include sources
    work=$(mktemp -d "$cache/.build-XXXXXX")
    # shellcheck disable=SC2064
    trap "rm -rf '$work'" EXIT
    include=$(sed 's/#.*//' "$definition/packages" | xargs | tr ' ' ,)
    mapfile -t sources < <(host_sources)
    [ ${#sources[@]} -gt 0 ] || die "this machine's apt has no Debian or Ubuntu source; see sources.list(5)"
    host_apt >"$work/apt.conf"
    say "[1/2] unpacking and setting up the packages of sandboxd/$name ($codename, $architecture); this takes a minute"
    mmdebstrap --quiet --skip=output/dev --variant=essential --architectures="$architecture" --include="$include" \
        --aptopt="$work/apt.conf" \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
        --setup-hook='for f in /etc/apt/auth.conf /etc/apt/auth.conf.d; do [ ! -e $f ] || cp -r $f "$1/etc/apt/"; done' \
        --customize-hook="sh '$definition/setup.sh' \"\$1\"" \
        --customize-hook='find "$1" -xdev -type f -perm /6000 | { ! grep .; }' \
        "$codename" "$work/root.tar" "${sources[@]}" >&2
    mv "$work/root.tar" "$tar"
    # Tars of definitions that nobody has asked for in a month.
    find "$cache" -name "$name-*.tar" -mtime +30 -delete
    say "[2/2] sandboxd/$name: $(du -h "$tar" | cut -f1) in $tar"
}

load() {
    if ! command -v docker >/dev/null || ! docker version >/dev/null 2>&1; then
        say "no Docker engine answers${DOCKER_HOST:+ at $DOCKER_HOST}; the image is loaded into none"
        return
    fi
    if [ "$(docker image inspect -f '{{index .Config.Labels "io.sandboxd.definition"}}' "sandboxd/$name" 2>/dev/null)" = "$hash" ] && [ -z "$fresh" ]; then
        say "the engine has this sandboxd/$name"
        return
    fi
    local old
    old=$(docker image inspect -f '{{.Id}}' "sandboxd/$name" 2>/dev/null || true)
    docker import --change "LABEL io.sandboxd.definition=$hash org.opencontainers.image.title=sandboxd/$name" \
        --change 'ENV LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin' \
        "$tar" "sandboxd/$name" >/dev/null
    # Boxes that run keep the image they were made from.
    [ -z "$old" ] || docker image rm "$old" >/dev/null 2>&1 || true
    say "sandboxd/$name is loaded into the engine"
}

# Two builds of one definition share the work: the second waits and finds it.
exec 9>"$cache/$name.lock"
flock 9
if [ -n "$fresh" ] || [ ! -s "$tar" ]; then
    command -v mmdebstrap >/dev/null || "$here/../scripts/provision.sh" images 9>&-
    build 9>&-
fi
touch "$tar"
[ -n "$tar_only" ] || load
printf '%s\n' "$tar"
