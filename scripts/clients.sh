#!/usr/bin/env bash
# Real NBD clients against the real binary: libnbd (nbdinfo, nbdcopy, nbdsh), qemu-img, qemu-io and
# fio, on files and emulated disks; and real programs on mounts (mounts.sh). One line per
# test; the last line counts them. Rates are measured elsewhere, by nightly.sh.
# IOPACE_BIN: the binary, else it is built. EXCHANGES: exchanges of schedulers under fio per backend
# (default 300; 10000 for the full run). IOPACE_POLICIES: a folder of scripts/policies.sh, whose
# policies are exchanged as well.
set -uo pipefail
cd "$(dirname "$0")/.."

EXCHANGES=${EXCHANGES:-300}
passed=0 failed=0 skipped=0
work=$(mktemp -d "${TMPDIR:-/tmp}/iopace-clients-XXXXXX")
server=''

stop_server() { # ends the server that we started, if it runs
  [ -n "$server" ] || return 0
  kill "$server" 2>/dev/null
  wait "$server" 2>/dev/null
  server=''
}
clean_up() {
  stop_server
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

if [ -z "${IOPACE_BIN:-}" ]; then
  cargo build -q -p iopace || exit 1
  IOPACE_BIN="${CARGO_TARGET_DIR:-target}/debug/iopace"
fi
IOPACE_BIN=$(realpath "$IOPACE_BIN")
export IOPACE_BIN PYTHONDONTWRITEBYTECODE=1
root=$PWD
cd "$work" || exit 1

report() { # name, status, log
  if [ "$2" = 0 ]; then
    passed=$((passed + 1))
    echo "ok $1"
  else
    failed=$((failed + 1))
    echo "FAIL $1"
    sed 's/^/    /' "$3" | tail -n 25
  fi
}

check() { # name, the tool that it needs, command ...
  local name=$1 tool=$2
  shift 2
  if ! command -v "$tool" >/dev/null; then
    skipped=$((skipped + 1))
    echo "skip $name: $tool is not installed (make setup)"
    return
  fi
  "$@" >log 2>&1 </dev/null
  report "$name" $? log
}

start() { # arguments of serve; sets uri
  stop_server
  : >out # an address of the server before this one would be taken for ours
  "$IOPACE_BIN" serve "$@" --socket "$work/s" --control "$work/c" >out 2>err &
  server=$!
  for _ in $(seq 400); do # the line comes once both sockets listen; stale sockets say nothing
    uri=$(grep -m1 '^nbd' out) && return 0
    kill -0 "$server" 2>/dev/null || break
    sleep 0.05
  done
  echo "the server did not say its address"
  cat err
  return 1
}

infos() {
  nbdinfo --list "$uri" && nbdinfo --map "$uri" >/dev/null || return 1
  nbdinfo --json "$uri" >info.json || return 1
  python3 - <<'PY'
import json
info = json.load(open("info.json"))
export = info["exports"][0]
assert info["structured"], info
for flag in "flush fua multi_conn trim zero cache df".split():
    assert export["can_" + flag], flag
assert export["export-size"] == 64 << 20, export
PY
}

copies() {
  head -c 64M /dev/urandom >a.img &&
    nbdcopy a.img "$uri" && nbdcopy "$uri" b.img && cmp a.img b.img
}

images() {
  qemu-img info "$uri" && qemu-img compare -f raw -F raw a.img "$uri" &&
    qemu-img convert -f raw -O raw "$uri" c.img && cmp a.img c.img &&
    qemu-img convert -n -f raw -O raw a.img "$uri" && qemu-img compare -f raw -F raw a.img "$uri"
}

patterns() {
  qemu-io -f raw "$uri" -c 'write -P 7 0 1M' -c 'read -P 7 0 1M' -c 'flush' \
    -c 'write -z 512k 64k' -c 'read -P 0 512k 64k' -c 'write -P 9 4k 4k' -c 'read -P 9 4k 4k' \
    -c 'discard 2M 1M' -c 'aio_write -P 3 8M 128k' -c 'aio_write -P 4 9M 64k' -c 'aio_flush' \
    -c 'read -P 3 8M 128k' -c 'read -P 4 9M 64k' >io.log 2>&1
  local status=$?
  cat io.log
  [ $status = 0 ] && ! grep -qiE 'failed|error' io.log
}

verify_while_exchanging() {
  fio --name=verify --ioengine=nbd --uri="$uri" --rw=randrw --bsrange=4k-128k --iodepth=16 \
    --size=16M --offset_increment=16M --numjobs=4 --verify=crc32c --verify_fatal=1 --loops=3 \
    --group_reporting >fio.log 2>&1 &
  local fio=$! done=0 device algorithm algorithms
  device=$("$IOPACE_BIN" sched status --control c --format json |
    python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["name"])') || return 1
  local module
  for module in ${IOPACE_POLICIES:+"$IOPACE_POLICIES"/*.wasm}; do
    "$IOPACE_BIN" sched load "$module" --control c || return 1
  done
  algorithms=$("$IOPACE_BIN" sched list --control c --format json |
    python3 -c 'import json,sys; print(*(one["name"] for one in json.load(sys.stdin)))') || return 1
  echo "exchanged: $algorithms"
  "$IOPACE_BIN" sched insert -a rr "$device" --control c || return 1
  while [ $done -lt "$EXCHANGES" ]; do
    for algorithm in $algorithms; do
      "$IOPACE_BIN" sched configure "$device" -a "$algorithm" --control c >/dev/null || return 1
      done=$((done + 1))
    done
  done
  wait $fio
  local status=$?
  cat fio.log
  "$IOPACE_BIN" sched status "$device" --control c
  # No scheduler gave up, loaded or not.
  "$IOPACE_BIN" events --control c --format json | grep '"failed"' && return 1
  return $status
}

run_backend() { # name, arguments of serve ...
  local name=$1
  shift
  if ! start "$@"; then
    failed=$((failed + 1))
    echo "FAIL $name: the server did not start"
    sed 's/^/    /' err
    return
  fi
  check "$name: nbdinfo" nbdinfo infos
  check "$name: nbdcopy both ways" nbdcopy copies
  check "$name: qemu-img" qemu-img images
  check "$name: qemu-io" qemu-io patterns
  if python3 -c 'import nbd' 2>/dev/null; then
    check "$name: nbdsh" python3 python3 "$root/scripts/clients.py" protocol "$uri"
  elif /usr/bin/python3 -c 'import nbd' 2>/dev/null; then
    check "$name: nbdsh" python3 /usr/bin/python3 "$root/scripts/clients.py" protocol "$uri"
  else
    skipped=$((skipped + 1))
    echo "skip $name: nbdsh: python3-libnbd is not installed (make setup)"
  fi
  check "$name: fio verify under exchanges" fio verify_while_exchanging
  stop_server
  if [ -e s ] || [ -e c ]; then
    failed=$((failed + 1))
    echo "FAIL $name: sockets are left behind"
  fi
}

killed() { # what was acknowledged before a kill -9 is there after the restart on the stale socket
  local python=/usr/bin/python3
  truncate -s 64M k.img && start k.img || return 1
  "$python" "$root/scripts/clients.py" write "$uri" acknowledged &
  local writer=$!
  # Its log comes in pieces of 8 KiB: some hundred blocks are acknowledged by then.
  for _ in $(seq 400); do
    [ ! -s acknowledged ] || break
    sleep 0.05
  done
  sleep 1
  kill -9 "$server"
  wait "$server" 2>/dev/null
  server=''
  wait $writer
  [ -S s ] && start k.img || return 1
  "$python" "$root/scripts/clients.py" compare "$uri" acknowledged
}

for backend in file direct threads; do truncate -s 64M $backend.img; done
run_backend "file" file.img
if dd if=/dev/zero of=direct.img bs=4096 count=1 oflag=direct conv=notrunc 2>/dev/null; then
  run_backend "file, direct" direct.img --direct
else
  skipped=$((skipped + 1))
  echo "skip file, direct: this file system knows no O_DIRECT"
fi
run_backend "file, threads" threads.img --io-engine threads
run_backend "emulated null" --emulate null --size 64MiB --direct
run_backend "emulated ssd-nvme" --emulate ssd-nvme --size 64MiB
run_backend "emulated in a sparse file" store.img --emulate ssd-nvme --size 64MiB
if /usr/bin/python3 -c 'import nbd' 2>/dev/null; then
  check "kill -9 loses nothing acknowledged" python3 killed
else
  skipped=$((skipped + 1))
  echo "skip kill -9: python3-libnbd is not installed (make setup)"
fi

attached() { # a disk of 2009 as a loop device, fio on it, and nothing left behind
  local disk run=$work/run
  mkdir -p "$run"
  disk=$(XDG_RUNTIME_DIR=$run "$IOPACE_BIN" attach --emulate hdd-sata-250g --size 2GiB) || return 1
  fio --name=attached --filename="$disk" --ioengine=libaio --direct=1 --rw=randrw --bs=16k \
    --iodepth=8 --time_based --runtime=3 --size=1G
  local status=$?
  XDG_RUNTIME_DIR=$run "$IOPACE_BIN" detach "$disk" || status=1
  if losetup --list --noheadings --output BACK-FILE | grep -F "$run"; then status=1; fi
  if grep -F "$run" /proc/self/mountinfo; then status=1; fi
  if find "$run/iopace" -mindepth 1 ! -name '*.log' | grep .; then status=1; fi
  return $status
}

if [ "$(id -u)" = 0 ] && [ -e /dev/fuse ] && [ -e /dev/loop-control ]; then
  check "attach: fio on a loop device, nothing left" fio attached
else
  skipped=$((skipped + 1))
  echo "skip attach: loop devices need root, /dev/fuse and /dev/loop-control"
fi

saying() { # name, command ...: a test that says itself what it lacks
  local name=$1
  shift
  "$@" >log 2>&1 </dev/null
  local status=$?
  if [ $status = 0 ] && grep -q '^skipped: ' log; then
    skipped=$((skipped + 1))
    echo "skip ${name%%:*}: $(sed -n 's/^skipped: //p' log)"
  else
    report "$name" $status log
  fi
}
check "metrics: what is scraped under load" fio python3 "$root/scripts/metrics.py" scrape
saying "metrics: promtool reads them" python3 "$root/scripts/metrics.py" promtool
saying "metrics: promtool tests the alerts" python3 "$root/scripts/metrics.py" alerts

saying "cluster: a limit of three hosts is never exceeded" "$root/scripts/cluster.sh" short

for test in git sqlite tar rsync killed live sides; do
  case $test in sqlite) tool=sqlite3 ;; killed | live | sides) tool=python3 ;; *) tool=$test ;; esac
  if [ ! -e /dev/fuse ] || [ "$(id -u)" != 0 ]; then
    skipped=$((skipped + 1))
    echo "skip mount: $test: mounting needs /dev/fuse and root"
    continue
  fi
  check "mount: $test" $tool "$root/scripts/mounts.sh" $test
  [ $test = killed ] || [ $test = live ] || [ $test = sides ] ||
    check "mount: $test, emulated" $tool "$root/scripts/mounts.sh" $test --emulate ssd-nvme
done

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
