#!/usr/bin/env bash
# A Docker engine for tests: the machine's own where one answers, else one that
# is started by hand under a directory of its own, with nothing shared with any
# other engine: data, sockets, pid file, containerd namespace.
#
#   scripts/engine.sh start [dir]   make sure that an engine answers
#   scripts/engine.sh stop  [dir]   end the engine that start began, if it did
#   scripts/engine.sh env   [dir]   print the line that names it, for eval
#
# dir is build/engine unless given. As root on Debian or Ubuntu the engine is
# installed when it is missing; otherwise the script says what to install.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/packages.sh
. "$here/packages.sh"

wait_seconds=60

# Paths of unix sockets end at 107 bytes, and the engine puts some six levels
# below its directory: a deep checkout gets a short directory elsewhere.
engine_dir() {
    local dir=${1:-$here/../build/engine}
    mkdir -p "$dir"
    dir=$(cd "$dir" && pwd -P)
    if [ ${#dir} -gt 60 ]; then
        dir=/var/tmp/sandboxd-engine-$(printf %s "$dir" | cksum | cut -d' ' -f1)
        mkdir -p "$dir"
    fi
    chmod 700 "$dir"
    printf '%s' "$dir"
}

# answers HOST tells whether an engine answers there ("" is the default place).
# Only the sockets of this machine are tried by hand; others need the client.
answers() {
    local host=${1:-unix:///var/run/docker.sock}
    if command -v docker >/dev/null; then
        timeout 10 docker -H "$host" version --format '{{.Server.Version}}' >/dev/null 2>&1
    else
        [ -S "${host#unix://}" ] && timeout 10 curl -sf --unix-socket "${host#unix://}" http://engine/_ping >/dev/null 2>&1
    fi
}

# ours PID tells whether the process is the engine of this directory.
ours() {
    [ -r "/proc/$1/cmdline" ] && tr '\0' '\n' <"/proc/$1/cmdline" | grep -qx -- "--data-root=$dir/data"
}

running() {
    [ -s "$dir/dockerd.pid" ] && ours "$(cat "$dir/dockerd.pid")"
}

start() {
    if answers "${DOCKER_HOST:-}"; then
        say "a Docker engine answers at ${DOCKER_HOST:-the default socket}; using it"
        return
    fi
    if running && answers "unix://$dir/docker.sock"; then
        say "the engine of $dir is running"
        return
    fi
    [ "$(id -u)" = 0 ] || die "no Docker engine answers, and starting one needs root. Install and start one (sudo apt-get install docker.io), or name a remote one in DOCKER_HOST."
    # The client came in docker.io up to Debian 12 and is a package of its own since.
    local packages=(docker.io iptables)
    command -v docker >/dev/null || ! apt-cache show docker-cli >/dev/null 2>&1 || packages+=(docker-cli)
    command -v dockerd >/dev/null || install_packages "the Docker engine" "${packages[@]}"
    # A restart makes no use of what an engine that was killed left behind.
    rm -f "$dir/dockerd.pid" "$dir/docker.sock"
    launch
    await
}

# launch starts the engine without a bridge and without a firewall rule: boxes
# have no network, and the machine's own rules are left alone.
launch() {
    say "starting a Docker engine under $dir"
    setsid dockerd \
        --data-root="$dir/data" --exec-root="$dir/exec" --pidfile="$dir/dockerd.pid" \
        --host="unix://$dir/docker.sock" --containerd-namespace="sandboxd-$(printf %s "$dir" | cksum | cut -d' ' -f1)" \
        --bridge=none --iptables=false --ip-forward=false --ip-masq=false --userland-proxy=false \
        >"$dir/dockerd.log" 2>&1 </dev/null 9>&- &
    echo $! >"$dir/launcher.pid"
}

await() {
    local waited=0
    until answers "unix://$dir/docker.sock"; do
        waited=$((waited + 1))
        if ! kill -0 "$(cat "$dir/launcher.pid")" 2>/dev/null || [ $waited -gt $((wait_seconds * 2)) ]; then
            say "the Docker engine did not start; its log ($dir/dockerd.log) ends with:"
            tail -n 15 "$dir/dockerd.log" >&2
            exit 1
        fi
        sleep 0.5
    done
    say "the engine answers at unix://$dir/docker.sock"
}

stop() {
    if ! running; then
        say "no engine of $dir is running"
    else
        local pid waited=0
        pid=$(cat "$dir/dockerd.pid")
        kill -TERM "$pid"
        while ours "$pid"; do
            waited=$((waited + 1))
            [ $waited -le $((wait_seconds * 2)) ] || { say "the engine ignores SIGTERM; killing it"; kill -KILL "$pid"; sleep 1; break; }
            sleep 0.5
        done
        say "the engine of $dir has ended"
    fi
    # Deepest first; what an engine leaves mounted keeps its directory busy.
    awk -v d="$dir/" 'index($2, d) == 1 { print $2 }' /proc/mounts | sort -r | while read -r m; do
        umount "$m" 2>/dev/null || umount -l "$m" || say "$m stays mounted"
    done
    rm -f "$dir/dockerd.pid" "$dir/docker.sock" "$dir/launcher.pid"
}

# env_line prints what to eval. It is empty where the machine's own engine serves.
env_line() {
    if running; then
        printf 'export DOCKER_HOST=unix://%s/docker.sock\n' "$dir"
    elif ! answers "${DOCKER_HOST:-}"; then
        die "no Docker engine answers; start one with scripts/engine.sh start"
    fi
}

action=${1:-}
case $action in
start | stop | env) dir=$(engine_dir "${2:-}") ;;
*) die "usage: scripts/engine.sh start|stop|env [dir]" ;;
esac
# Two starts at once end with one engine.
exec 9>"$dir/lock"
case $action in
start) flock 9 && start ;;
stop) flock 9 && stop ;;
env) env_line ;;
esac
