#!/usr/bin/env bash
# Cost of the policy per request (submit, start, done through the engine), per scheduler and
# number of tasks: nanoseconds by the clock, and instructions by callgrind, where it is installed.
# DMCLOCK: a checkout of https://github.com/ceph/dmclock, whose queue is measured beside (needs g++
# and the headers of Boost: apt-get install g++ libboost-dev).
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release -q -p iopace-core --example policy_loop
loop="${CARGO_TARGET_DIR:-target}/release/examples/policy_loop"

instructions() { # words of a command that counts in its last number of requests
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" 2>&1 |
    sed -n 's/.*Collected : //p'
}

per_request() { # words of a command before and after the number of requests
  command -v valgrind >/dev/null || { echo '-'; return; }
  more=$(instructions "${@:1:$#-1}" 60000 ${!#})
  less=$(instructions "${@:1:$#-1}" 40000 ${!#})
  echo $(((more - less) / 20000))
}

best_of_five() { # a command that prints its nanoseconds
  for _ in 1 2 3 4 5; do "$@"; done | sort -n | head -n 1
}

dmclock=
if [ -n "${DMCLOCK:-}" ]; then
  built=$(mktemp -d)
  trap 'rm -rf "$built"' EXIT
  dmclock=$built/dmclock_loop
  g++ -O3 -DNDEBUG -std=c++17 -w -I"$DMCLOCK/src" -I"$DMCLOCK/support/src" \
    scripts/dmclock_loop.cc "$DMCLOCK/src/dmclock_util.cc" "$DMCLOCK/support/src/run_every.cc" \
    -lpthread -o "$dmclock"
fi

echo '| scheduler | tasks | ns per request | instructions per request |'
echo '|---|---|---|---|'
for scheduler in $("$loop" --schedulers); do
  for tasks in 1 16 1000; do
    best=$(best_of_five "$loop" "$scheduler" "$tasks" 1000000)
    echo "| $scheduler | $tasks | $best | $(per_request "$loop" "$scheduler" "$tasks" '') |"
  done
done

echo
echo 'Groups, each with a request there at any time:'
echo
echo '| scheduler | active groups | ns per request | instructions per request | aim, ns |'
echo '|---|---|---|---|---|'
aims='1:200 16:200 1000:400 10000:800'
for scheduler in fifo fair; do
  for entry in $aims; do
    groups=${entry%:*}
    best=$(best_of_five "$loop" "$scheduler" "$groups" 1000000 "$groups")
    count=$(per_request "$loop" "$scheduler" "$groups" "$groups")
    echo "| $scheduler | $groups | $best | $count | ${entry#*:} |"
  done
done
[ -n "$dmclock" ] || exit 0
for entry in $aims; do
  clients=${entry%:*}
  best=$(best_of_five "$dmclock" "$clients" 1000000)
  count=$(per_request "$dmclock" "$clients" '')
  echo "| dmClock, its queue alone | $clients | $best | $count | |"
done
