#!/usr/bin/env bash
# Power cuts, recorded and tried: `power_cut.sh [--long [SEED [OPERATIONS]]]`. The long form runs
# all workloads of up to OPERATIONS (three) operations, random load and programs, as root, and puts
# its table into docs/power-cuts.md. The short form is what `make test` runs.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
"") exec cargo nextest run -p iopace-powercut ;;
--long) seed=${2:-1} operations=${3:-3} ;;
*)
    echo "power_cut.sh [--long [SEED [OPERATIONS]]]" >&2
    exit 2
    ;;
esac
table=$(mktemp)
trap 'rm -f "$table"' EXIT
cargo build -q --release -p iopace-powercut
status=0
program=${CARGO_TARGET_DIR:-target}/release/iopace-powercut
"$program" long "$seed" "$operations" | tee "$table" || status=$?
if [ "$status" = 0 ] && [ -s "$table" ]; then
    page=docs/power-cuts.md
    awk -v table="$table" -v command="scripts/power_cut.sh --long $seed $operations" '
        /<!-- table -->/ {
            print; print ""; print "`" command "`:"; print ""
            while ((getline line < table) > 0) print line
            print ""; skip = 1
        }
        /<!-- end of the table -->/ { skip = 0 }
        !skip && !/<!-- table -->/ { print }
    ' "$page" >"$page.new"
    mv "$page.new" "$page"
fi
exit "$status"
