#!/usr/bin/env bash
# Installs what the service needs to run boxes, where it is missing.
#
#   scripts/provision.sh runtime   an OCI runtime (runc), for the oci driver
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

images() {
    command -v mmdebstrap >/dev/null || install_packages "building images" mmdebstrap
}

compose() {
    docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null || install_packages "the test of compose.yaml" docker-compose
}

case ${1:-} in
runtime) runtime ;;
images) images ;;
compose) compose ;;
*) die "usage: scripts/provision.sh runtime|images|compose" ;;
esac
