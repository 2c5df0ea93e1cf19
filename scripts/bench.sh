#!/usr/bin/env bash
# Speed beside nbdkit and qemu-nbd, and of mounts beside passthrough_hp and bindfs, in the same run,
# the cost of the policy, and that of being looked at: the tables of docs/benchmarks.md, of which
# the words stay. All of it takes most of an hour; or name the parts: bench.sh nbd mounts.
# ROUNDS (3), SECONDS_EACH (2). bench.sh --old BINARY measures this build beside an earlier one, and
# nothing else unless parts are named.
set -euo pipefail
cd "$(dirname "$0")/.."
for tool in fio nbdkit qemu-nbd python3; do
  command -v "$tool" >/dev/null || { echo "bench: $tool is missing: make setup"; exit 1; }
done
old=
if [ "${1:-}" = --old ]; then
  [ -x "${2:-}" ] || { echo "bench: --old takes an iopace built before, not '${2:-}'"; exit 2; }
  old=$(realpath "$2")
  shift 2
  [ $# -gt 0 ] || set -- pairs
fi
cargo build --release -q -p iopace
cargo build --release -q -p iopace-daemon --example null_device
export IOPACE_BIN="${CARGO_TARGET_DIR:-target}/release/iopace"
export ACCOUNTED="${CARGO_TARGET_DIR:-target}/release/examples/null_device"
page=docs/benchmarks.md
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

put() { python3 scripts/bench.py "$page" "$1=$folder/$1"; }

# Each part goes into the page when it is done: who ends this early keeps what is there.
for part in "${@:-cost nbd groups pace mounts machines live}"; do
  for part in $part; do
    echo "bench: $part"
    case $part in
      cost)
        scripts/policy_cost.sh | tee "$folder/cost"
        put cost
        python3 scripts/accounting_cost.py | tee "$folder/accounting-cost"
        put accounting-cost
        ;;
      nbd) python3 scripts/bench.py "$page" nbd ;;
      groups)
        { python3 scripts/groups.py limits && echo && python3 scripts/groups.py slots; } \
          | tee "$folder/groups"
        put groups
        ;;
      pace)
        for way in writers reader groups; do
          FIGURES=docs/figures python3 scripts/pace.py "$way" && echo
        done | tee "$folder/pace"
        put pace
        ;;
      mounts)
        PASSTHROUGH_HP=$(scripts/passthrough_hp.sh) python3 scripts/bench_mount.py "$folder/mounts"
        put mounts
        ;;
      pairs)
        [ -n "$old" ] || { echo "bench: pairs need an earlier build: --old BINARY" >&2; exit 2; }
        scripts/bench_pairs.py --old "$old" --new "$IOPACE_BIN" --rounds "${ROUNDS:-5}" \
          | tee "$folder/pairs"
        put pairs
        ;;
      handovers)
        scripts/bench_handovers.py ${old:+--old "$old"} --new "$IOPACE_BIN" \
          --rounds "${ROUNDS:-3}" | tee "$folder/handovers"
        put handovers
        ;;
      machines)
        cargo build --release -q -p iopace-daemon --example vhost_load
        python3 scripts/bench_vhost.py | tee "$folder/machines"
        put machines
        ;;
      live)
        for way in disturbance windows accounting; do
          python3 scripts/bench_live.py "$way" | tee "$folder/live-$way"
          put "live-$way"
        done
        ;;
      *)
        echo "bench: no part '$part': cost, nbd, groups, pace, mounts, machines, live, pairs," \
          "handovers" >&2
        exit 2
        ;;
    esac
  done
done
