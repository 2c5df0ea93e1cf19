#!/usr/bin/env bash
# Power cuts, recorded and tried: `power_cut.sh [--long [SEED [OPERATIONS]] | --random [SEED]]`.
# `--long` runs all workloads of up to OPERATIONS (three) operations and programs, `--random` random
# load of at least 10,000 cuts of each kind; both as root, and both put a table into
# docs/power-cuts.md. Without an argument it is the short form, which `make test` runs.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
"") exec cargo nextest run -p iopace-powercut ;;
--long) work=long arguments=("${2:-1}" "${3:-3}") ;;
--random) work=random arguments=("${2:-1}") ;;
*)
    echo "power_cut.sh [--long [SEED [OPERATIONS]] | --random [SEED]]" >&2
    exit 2
    ;;
esac
table=$(mktemp)
trap 'rm -f "$table"' EXIT
# A development build, but for the checker: iopace with its own assertions.
cargo build -q -p iopace-powercut --config 'profile.dev.package.iopace-powercut.opt-level=2'
status=0
program=${CARGO_TARGET_DIR:-target}/debug/iopace-powercut
"$program" "$work" "${arguments[@]}" | tee "$table" || status=$?
if [ "$status" = 0 ] && [ -s "$table" ]; then
    page=docs/power-cuts.md
    awk -v table="$table" -v mark="<!-- $work -->" -v end="<!-- end of $work -->" \
        -v command="scripts/power_cut.sh --$work ${arguments[*]}" '
        index($0, end) { skip = 0 }
        !skip { print }
        index($0, mark) {
            print ""; print "`" command "`:"; print ""
            while ((getline line < table) > 0) print line
            print ""; skip = 1
        }
    ' "$page" >"$page.new"
    mv "$page.new" "$page"
fi
exit "$status"
