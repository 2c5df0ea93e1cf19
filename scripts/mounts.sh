#!/usr/bin/env bash
# Real programs on a mount of the real binary, each beside the same on a plain directory, and
# `kill -9` of the daemon under load, a live database that is mounted and unmounted, and one that is
# written on both sides.
# `mounts.sh TEST`, with IOPACE_BIN; run by clients.sh.
# Status 77: the test cannot run here.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/iopace-mounts-XXXXXX")
export XDG_RUNTIME_DIR=$work GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
clean_up() {
  timeout 20 "$IOPACE_BIN" unmount "$work/at" --force >/dev/null 2>&1
  mountpoint -q "$work/at" 2>/dev/null && umount -l "$work/at"
  cd / && rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

[ -e /dev/fuse ] && [ "$(id -u)" = 0 ] || exit 77
cd "$work" || exit 1
mkdir below at plain
mount_it() { # options
  "$IOPACE_BIN" mount below at --dirty-limit 4MiB "$@"
}
same() { # the mount, what is below and the plain directory
  diff -r at plain && diff -r below plain
}
program() { # name, options of the mount
  mount_it "${@:2}" || return 1
  for place in at plain; do
    (cd $place && "run_$1") >"$1.$place" 2>&1 || { cat "$1.$place"; return 1; }
  done
  diff "$1.at" "$1.plain"
}

commit() { # date, message
  GIT_AUTHOR_DATE=$1 GIT_COMMITTER_DATE=$1 git -c user.name=n -c user.email=e@x commit -q -m "$2"
}
run_git() {
  git init -q -b main a && cd a || return 1
  for i in $(seq 20); do seq "$i" $((i * 50)) >"f$i" || return 1; done
  git add . && commit 2020-01-01T00:00:00Z one && git mv f1 g1 && commit 2020-01-02T00:00:00Z two &&
    git -c gc.auto=0 clone -q --no-local . ../b && git gc -q && git fsck --strict &&
    cd ../b && git fsck --strict && git log --format=%H && git status --porcelain
}
run_sqlite() {
  for mode in wal delete; do
    sqlite3 $mode.db "PRAGMA journal_mode=$mode; CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);" &&
      for i in $(seq 5); do
        sqlite3 $mode.db "INSERT INTO t(b) VALUES(hex($i*7919)); BEGIN; UPDATE t SET b=b||'$i';
          ROLLBACK; UPDATE t SET b=b||'-$i' WHERE a%2=0;" || return 1
      done
    sqlite3 $mode.db "PRAGMA integrity_check; SELECT * FROM t;" || return 1
  done
}
run_tar() {
  mkdir -p t/u && for i in $(seq 100); do seq "$i" 3000 >"t/u/$i" || return 1; done
  ln -s u t/link && ln t/u/1 t/hard && truncate -s 5M t/sparse && chmod 640 t/u/2 &&
    find t -exec touch -hd 2001-02-03T04:05:06.789 {} + && tar -cSf x.tar t && mkdir out &&
    tar -xSf x.tar -C out &&
    tar -df x.tar -C out && diff -r t out/t && stat -c '%n %a %h %s %y' out/t/u/[1-3] out/t/hard
}
run_rsync() {
  mkdir from && for i in $(seq 30); do seq "$i" 2000 >"from/$i" || return 1; done
  rsync -a --fsync from/ to/ && seq 9 >from/5 && rm from/6 &&
    rsync -a --delete --checksum from/ to/ &&
    rsync -a --inplace --no-whole-file from/ to/ && diff -r from to && ls to
}

# Each line is acknowledged by `write` (the shell says so after it); a killed daemon loses none.
killed() {
  mount_it || return 1
  daemon=$("$IOPACE_BIN" mount --format json |
    python3 -c 'import json, sys
print(next(m["pid"] for m in json.load(sys.stdin) if m["mountpoint"] == sys.argv[1]))' \
      "$work/at") || return 1
  for writer in 1 2 3 4; do
    python3 - "$writer" <<'PY' &
import os, sys
name = sys.argv[1]
log = os.open("acknowledged" + name, os.O_WRONLY | os.O_CREAT)
number = 0
try:
    file = os.open("at/" + name, os.O_WRONLY | os.O_CREAT)
    while True:
        line = (b"%s %d " % (name.encode(), number)).ljust(20_000, b".")
        while line: # a part may be acknowledged when the end comes
            line = line[os.write(file, line):]
        number += 1
        os.pwrite(log, b"%12d" % number, 0)
except OSError as error:
    import errno
    sys.exit(0 if error.errno in (errno.ENOTCONN, errno.ECONNABORTED) else error.errno)
PY
  done
  for _ in $(seq 400); do # each has begun
    [ "$(find . -maxdepth 1 -name 'acknowledged[1-4]' -size +0 | wc -l)" -lt 4 ] || break
    sleep 0.05
  done
  sleep 1
  kill -9 "$daemon" || return 1
  for job in $(jobs -p); do wait "$job" || { echo "a writer ended with $?"; return 1; }; done
  ls at 2>said && return 1
  grep -q "Transport endpoint" said || { cat said; return 1; }
  mount_it || return 1
  python3 - <<'PY'
for name in "1234":
    count = int(open("acknowledged" + name).read())
    assert count > 0, name
    for folder in ("at/", "below/"):
        data = open(folder + name, "rb").read()
        assert len(data) >= count * 20_000, (name, len(data), count)
        for number in range(count):
            line = (b"%s %d " % (name.encode(), number)).ljust(20_000, b".")
            assert data[number * 20_000 : (number + 1) * 20_000] == line, (name, number)
PY
}

case $1 in
  killed) killed ;;
  live) python3 "$here/sqlite_live.py" 4 ;;
  sides) python3 "$here/sqlite_sides.py" 8 ;;
  *) program "$@" && { [ "$1" = git ] || same; } ;;
esac
