# What the tours share: programs they start, commands as a reader would type them, and what ends it all. To be sourced.
#
# BAILIFF is the program, `bailiff` of the PATH if it is not set. Everything is played in a directory of its own, where the program is
# `bailiff`, and is gone afterwards.
set -euo pipefail

BAILIFF=${BAILIFF:-bailiff}
needs() {
    for program in "$@"; do
        command -v "$program" >/dev/null || { echo "$program is missing" >&2; exit 69; }
    done
}
needs "$BAILIFF"

work=$(mktemp -d)
mkdir "$work/bin"
ln -s "$(realpath "$(command -v "$BAILIFF")")" "$work/bin/bailiff"
PATH=$work/bin:$PATH

processes=()
finish() {
    [ ${#processes[@]} -eq 0 ] || kill "${processes[@]}" 2>/dev/null || true
    wait
    rm -rf "$work"
}
trap finish EXIT

chapter() {
    printf '\n# %s\n' "$*"
}
# Shows a command as it would be typed, and what it prints.
run() {
    echo "\$ $*"
    eval "$*" 2>&1
}
# The same of a command that is refused, which is what is to be shown.
run_refused() {
    echo "\$ $*"
    eval "$*" 2>&1 || true
}
# Starts a program that goes on to the end of the tour, with a file for its log.
start() {
    local log=$1
    shift
    "$@" 2>"$log" &
    processes+=($!)
}
# Waits for a line in a file that a process writes.
expect() {
    timeout 60 sh -c 'until grep -q "$1" "$2" 2>/dev/null; do sleep 0.1; done' - "$1" "$2"
}
