#!/usr/bin/env bash
# Cost of the policy per request (submit, start, done through the engine), per scheduler and
# number of tasks: nanoseconds by the clock, and instructions by callgrind, where it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release -q -p iopace-core --example policy_loop
loop="${CARGO_TARGET_DIR:-target}/release/examples/policy_loop"

instructions() { # scheduler, tasks, requests, groups
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$loop" "$@" 2>&1 |
    sed -n 's/.*Collected : //p'
}

echo '| scheduler | tasks | ns per request | instructions per request |'
echo '|---|---|---|---|'
for scheduler in $("$loop" --schedulers); do
  for tasks in 1 16 1000; do
    best=$(for _ in 1 2 3 4 5; do "$loop" "$scheduler" "$tasks" 1000000; done | sort -n | head -n 1)
    count='-'
    if command -v valgrind >/dev/null; then
      more=$(instructions "$scheduler" "$tasks" 40000)
      less=$(instructions "$scheduler" "$tasks" 20000)
      count=$(((more - less) / 20000))
    fi
    echo "| $scheduler | $tasks | $best | $count |"
  done
done

echo
echo 'Groups, each with a request there at any time:'
echo
echo '| scheduler | active groups | ns per request | instructions per request | aim, ns |'
echo '|---|---|---|---|---|'
for scheduler in fifo fair; do
  for entry in 1:200 16:200 1000:400 10000:800; do
    groups=${entry%:*}
    best=$(for _ in 1 2 3 4 5; do
      "$loop" "$scheduler" "$groups" 1000000 "$groups"
    done | sort -n | head -n 1)
    count='-'
    if command -v valgrind >/dev/null; then
      more=$(instructions "$scheduler" "$groups" 60000 "$groups")
      less=$(instructions "$scheduler" "$groups" 40000 "$groups")
      count=$(((more - less) / 20000))
    fi
    echo "| $scheduler | $groups | $best | $count | ${entry#*:} |"
  done
done
