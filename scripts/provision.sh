#!/usr/bin/env bash
# Installs what the service needs to run boxes, where it is missing.
#
#   scripts/provision.sh runtime   an OCI runtime (runc), for the oci driver
#   scripts/provision.sh demo      that, what the demo's commands need, and the
#                                  base image where an engine answers
#   scripts/provision.sh images    what images/build.sh builds with
#   scripts/provision.sh compose   docker compose, for the test of compose.yaml
#
# As root on Debian or Ubuntu it installs from the system's packages; otherwise
# it says what to install.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/packages.sh
. "$here/packages.sh"

runtime() {
    local name
    for name in runc crun; do
        if command -v "$name" >/dev/null || PATH=$PATH:/usr/sbin:/sbin command -v "$name" >/dev/null; then
            say "the runtime $name is there"
            return
        fi
    done
    install_packages "running boxes" runc
    say "the runtime runc is installed"
}

# demo: a box with the machine's own programs needs python3 and git among them;
# those of a person's home are not seen from inside.
demo() {
    local name missing=()
    runtime
    for name in python3 git; do
        PATH=/usr/local/bin:/usr/bin:/bin command -v "$name" >/dev/null || missing+=("$name")
    done
    [ ${#missing[@]} -eq 0 ] || install_packages "the demo" "${missing[@]}"
    if command -v docker >/dev/null && docker version >/dev/null 2>&1 && ! docker image inspect sandboxd/base >/dev/null 2>&1; then
        say "a Docker engine answers, and lacks the image sandboxd/base"
        "$here/../images/build.sh" base >/dev/null
    fi
}

images() {
    command -v mmdebstrap >/dev/null || install_packages "building images" mmdebstrap
}

compose() {
    docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null || install_packages "the test of compose.yaml" docker-compose
}

case ${1:-} in
runtime) runtime ;;
demo) demo ;;
images) images ;;
compose) compose ;;
*) die "usage: scripts/provision.sh runtime|demo|images|compose" ;;
esac
