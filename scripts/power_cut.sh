#!/usr/bin/env bash
# Power cuts, recorded and tried: `power_cut.sh [--long [SEED]]`. The long form runs all workloads
# of up to three operations, random load and programs (some ten minutes on two processors, as root),
# and puts its table into docs/power-cuts.md. The short form is what `make test` runs.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
"") exec cargo nextest run -p iopace-powercut ;;
--long) seed=${2:-1} ;;
*)
    echo "power_cut.sh [--long [SEED]]" >&2
    exit 2
    ;;
esac
table=$(mktemp)
trap 'rm -f "$table"' EXIT
cargo build -q --release -p iopace-powercut
status=0
"${CARGO_TARGET_DIR:-target}/release/iopace-powercut" long "$seed" | tee "$table" || status=$?
if [ "$status" = 0 ] && [ -s "$table" ]; then
    page=docs/power-cuts.md
    awk -v table="$table" -v command="scripts/power_cut.sh --long $seed" '
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
