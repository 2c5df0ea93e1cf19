#!/usr/bin/env bash
# Runs the tests again and again beside a load of four busy processes: RUNS times (20), as root.
# What a busy machine can upset is every test with threads, sockets, processes or a clock: those of
# the packages below and the real clients. The others run in virtual time and take no part.
# Ends at the first failure; hours on two cores. Needs stress-ng.
set -uo pipefail
cd "$(dirname "$0")/.."

runs=${RUNS:-20}
packages=(iopace iopace-daemon iopace-fuse iopace-nbd iopace-powercut)
if ! command -v stress-ng >/dev/null; then
  echo "stress: needs stress-ng: apt-get install stress-ng" >&2
  exit 2
fi
words=()
for package in "${packages[@]}"; do words+=(-p "$package"); done
# Built before the load begins.
cargo nextest run --locked "${words[@]}" --no-run || exit 1

log=$(mktemp "${TMPDIR:-/tmp}/iopace-stress-XXXXXX")
# As in another terminal: a session of its own, which the kernel gives a share of its own.
setsid stress-ng --quiet --cpu 4 &
load=$!
tests=
# Both end what they have started; the tests their daemons and mounts as well.
trap 'kill "$load" $tests 2>/dev/null; wait' EXIT
trap 'echo; echo "interrupted"; exit 130' INT TERM

# In the background: a signal is heard at once, not when all tests are over.
tried() {
  "$@" >>"$log" 2>&1 &
  tests=$!
  wait "$tests"
  status=$?
  tests=
  return $status
}

for run in $(seq 1 "$runs"); do
  begin=$SECONDS
  : >"$log"
  tried cargo nextest run --locked "${words[@]}" && tried scripts/clients.sh
  results=$(grep -hE '^ *Summary |^[0-9]+ passed, [0-9]+ failed' "$log" | tr '\n' ';')
  echo "run $run of $runs: $((SECONDS - begin)) s: $results"
  if [ $status != 0 ]; then
    echo "FAILED: the whole output is in $log"
    exit 1
  fi
done
rm -f "$log"
echo "$runs runs in a row without a failure"
