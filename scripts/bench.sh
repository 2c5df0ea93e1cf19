#!/usr/bin/env bash
# Speed beside nbdkit and qemu-nbd, and of mounts beside passthrough_hp and bindfs, in the same run,
# the cost of the policy, and that of being looked at; writes docs/benchmarks.md.
# ROUNDS (3), SECONDS_EACH (2).
set -euo pipefail
cd "$(dirname "$0")/.."
for tool in fio nbdkit qemu-nbd python3; do
  command -v "$tool" >/dev/null || { echo "bench: $tool is missing: make setup"; exit 1; }
done
cargo build --release -q -p iopace
cargo build --release -q -p iopace-daemon --example null_device
export IOPACE_BIN="${CARGO_TARGET_DIR:-target}/release/iopace"
export ACCOUNTED="${CARGO_TARGET_DIR:-target}/release/examples/null_device"
cost=$(mktemp) groups=$(mktemp) pace=$(mktemp) mounts=$(mktemp) live=$(mktemp)
trap 'rm -f "$cost" "$groups" "$pace" "$mounts" "$live"' EXIT
scripts/policy_cost.sh >"$cost"
{ python3 scripts/groups.py limits && echo && python3 scripts/groups.py slots; } | tee "$groups"
for part in writers reader groups; do
  FIGURES=docs/figures python3 scripts/pace.py "$part" && echo
done | tee "$pace"
PASSTHROUGH_HP=$(scripts/passthrough_hp.sh) python3 scripts/bench_mount.py "$mounts"
python3 scripts/bench_live.py | tee "$live"
python3 scripts/bench.py "$cost" "$groups" "$pace" "$mounts" "$live" docs/benchmarks.md
