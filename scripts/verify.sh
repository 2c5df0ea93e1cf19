#!/usr/bin/env bash
# `iopace verify` against a good build and one that ignores limits of bytes written (the feature
# `broken-limiter`, debug builds only): the good one passes; of the broken one exactly that promise
# does not hold, and how much too much passed is said.
# The tolerance is that of a machine that is busy with other work; each figure is said with its
# bound (figures.py). IOPACE_BIN: the good binary, else it is built. Ends with 1 if the words are
# wrong, as those of a limit that was exceeded in the good build.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d "${TMPDIR:-/tmp}/iopace-verify-test-XXXXXX")
target="${CARGO_TARGET_DIR:-target}/debug"
server=''
clean_up() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

if [ -z "${IOPACE_BIN:-}" ]; then
  cargo build -q -p iopace
  IOPACE_BIN="$target/iopace"
fi
cp "$IOPACE_BIN" "$work/good"
# Only our own crates are built again, beside the good ones; then the good binary is put back.
cargo build -q -p iopace --features broken-limiter
cp "$target/iopace" "$work/broken"
cargo build -q -p iopace

# Serves a disk in memory and verifies a group with two limits: `verify BINARY`; prints the status.
verify() {
  local status=0
  rm -f "$work/s" "$work/c"
  "$work/$1" serve --emulate null --size 64MiB --direct --socket "$work/s" --control "$work/c" \
    >"$work/$1.out" 2>"$work/$1.err" &
  server=$!
  for _ in $(seq 400); do
    if grep -q '^stop:' "$work/$1.out"; then break; fi
    sleep 0.05
  done
  "$work/$1" group create /a --control "$work/c" >/dev/null
  "$work/$1" group set /a io.max 'null wbps=4M wiops=200' --control "$work/c" >/dev/null
  # The broken build is asked with the good one: what looks is not what is looked at.
  "$work/good" verify /a --scratch null --control "$work/c" --time 2s --tolerance 5 --format json \
    >"$work/$1.json" 2>>"$work/$1.err" || status=$?
  "$work/$1" group list --format json --control "$work/c" >"$work/$1.groups"
  kill "$server"
  wait "$server" || true
  server=''
  echo "$status"
}

good=$(verify good)
broken=$(verify broken)
PYTHONPATH=scripts python3 - "$good" "$broken" "$work" <<'PY'
import json
import sys

from figures import figure

good, broken, work = sys.argv[1:]


def promises(name):
    with open(f"{work}/{name}.json") as file:
        found = {one["promise"]: one for one in json.load(file)["promises"]}
    for one in found.values():
        print(name, one["promise"], one["load"], one["asked"], one["achieved"], one["verdict"])
    assert sorted(found) == ["wbps", "wiops"], found
    with open(f"{work}/{name}.groups") as file:
        assert sorted(group["group"] for group in json.load(file)) == ["/", "/a"], "left behind"
    return found


def keeps(name, one):
    """A limit that is kept. A machine without a free processor may miss it; it may not exceed
    it."""
    reason = one["reason"] or ""
    assert "more passed" not in reason, one
    assert one["verdict"] != "not-tested" or "processor" in reason, one
    achieved = f"{one['achieved']} of {one['asked']}, {one['verdict']}"
    holds = one["verdict"] == "holds"
    figure(f"verify, the {name} build: {one['promise']}", achieved, "holds", holds)


seen = promises("good")
for one in seen.values():
    keeps("good", one)
verdicts = {one["verdict"] for one in seen.values()}
wanted = "1" if "broken" in verdicts else "2" if "not-tested" in verdicts else "0"
assert good == wanted, f"the good build: status {good}: {seen}"
seen = promises("broken")
keeps("broken", seen["wiops"])
wbps = seen["wbps"]
is_found = wbps["verdict"] == "broken" and "more passed" in wbps["reason"]
is_found = is_found and wbps["off_percent"] > 10 and wbps["achieved"] > 1.1 * wbps["asked"]
figure("verify, the broken build: wbps", f"{wbps['off_percent']} % off, {wbps['verdict']}",
       "broken by more than 10 %", is_found)
assert not is_found or broken == "1", f"the broken build: status {broken}: {seen}"
PY
