#!/usr/bin/env bash
# `iopace verify` against a good build and one that ignores limits of bytes written (the feature
# `broken-limiter`, debug builds only): the good one passes; of the broken one exactly that promise
# does not hold, and how much too much passed is said.
# The tolerance is that of a machine that is busy with other work; a figure that is too low or
# uneven where a processor was missed is measured again, all in all three times.
# IOPACE_BIN: the good binary, else it is built. Ends with 0 if all of this is so.
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

# The time, and for how long a processor was missed until now.
now() {
  PYTHONPATH=scripts python3 -c 'import again, time
print(time.monotonic(), again.waited() + again.taken())'
}

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
  now >"$work/$1.begin"
  # The broken build is asked with the good one: what looks is not what is looked at.
  "$work/good" verify /a --scratch null --control "$work/c" --time 2s --tolerance 5 --format json \
    >"$work/$1.json" 2>>"$work/$1.err" || status=$?
  now >"$work/$1.end"
  "$work/$1" group list --format json --control "$work/c" >"$work/$1.groups"
  kill "$server"
  wait "$server" || true
  server=''
  echo "$status"
}

# Both, and what is said of them: status 3 if only a figure is not as it has to be, and a processor
# was missed.
attempt() {
  local good broken
  good=$(verify good)
  broken=$(verify broken)
  python3 - "$good" "$broken" "$work" <<'PY'
import json
import sys

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


def figure(is_so, name, *words):
    """What a processor that is taken away for a second can spoil: not if none was missed for as
    much as a limit may be off."""
    if is_so:
        return
    print(f"the {name} build:", *words)
    begin, end = ([float(word) for word in open(f"{work}/{name}.{at}").read().split()]
                  for at in ("begin", "end"))
    share = (end[1] - begin[1]) / (end[0] - begin[0])
    print(f"somebody had no processor for {share * 100:.0f} % of the time")
    sys.exit(3 if share >= 0.05 else 1)


def keeps(name, one):
    """A limit that is kept. A machine without a free processor may miss it; it may not exceed
    it."""
    reason = one["reason"] or ""
    assert "more passed" not in reason, one
    assert one["verdict"] != "not-tested" or "processor" in reason, one
    figure(one["verdict"] != "broken", name, one)


seen = promises("good")
for one in seen.values():
    keeps("good", one)
is_tested = all(one["verdict"] == "holds" for one in seen.values())
assert good == ("0" if is_tested else "2"), f"the good build: status {good}: {seen}"
seen = promises("broken")
keeps("broken", seen["wiops"])
wbps = seen["wbps"]
figure(wbps["verdict"] == "broken" and "more passed" in wbps["reason"], "broken", wbps)
figure(wbps["off_percent"] > 10 and wbps["achieved"] > 1.1 * wbps["asked"], "broken", wbps)
assert broken == "1", f"the broken build: status {broken}: {seen}"
PY
}

# As a whole, up to three times; the bounds are always the same.
for try in 1 2 3; do
  status=0
  attempt || status=$?
  [ "$status" = 3 ] || exit "$status"
  echo "not within the bounds, try $try of 3"
done
exit 1
