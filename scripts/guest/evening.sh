# shellcheck shell=sh
# Part of init.sh: a NAS whose database commits while a backup runs, set up as the pages for users
# say; and the same after another boot, when nobody has said anything anew.

# Seconds that are measured, and those before in which the backup finds its speed.
evening_span=30
evening_warm=5

# Differences without a cause, in percent.
noise=15

# Disks of the machine: /etc lasts on a fast one, the slow one is at /srv.
evening_disks() {
    slow=$(grep -lx slow /sys/block/*/serial | cut -d/ -f4)
    fast=vda
    [ "$slow" != vda ] || fast=vdb
    [ -n "$1" ] || mkfs.ext4 -q "/dev/$fast" || wrong "mkfs.ext4"
    mount -t ext4 "/dev/$fast" /etc || wrong "no /etc"
    echo root:x:0:0::/:/bin/sh >/etc/passwd
    mkdir -p /srv /var/lib
    mount -t ext4 "/dev/$slow" /srv || wrong "the slow disk is not mounted"
    cgroups
}

# Commits of SQLite, one after the other, each durable, in a database of its own. Sets $count, and
# $p99 in ms. With a log that it has for itself a commit is a write and a sync: an emulated
# processor would be busy for longer than the disk with the thirty calls of a rollback journal.
commits() {
    rm -f /srv/cloud/db*
    sqlite3 /srv/cloud/db 'CREATE TABLE t (n INTEGER PRIMARY KEY, x TEXT)' || wrong "no database"
    yes 'INSERT INTO t (x) VALUES (hex(randomblob(250)));' |
        LD_PRELOAD=/lib64/libstdbuf.so _STDBUF_O=L timeout "$evening_span" sqlite3 \
            -cmd 'PRAGMA locking_mode=exclusive' -cmd 'PRAGMA journal_mode=wal' \
            -cmd '.timer on' /srv/cloud/db >/run/commits 2>&1
    sed -n 's/^Run Time: real \([0-9.]*\) .*/\1/p' /run/commits | sort -n >/run/times
    count=$(wc -l </run/times)
    p99=$(awk '{ all[NR] = $1 } END { print int(1000 * all[int((NR - 1) * 0.99) + 1] + 0.5) }' \
        /run/times)
    grep -vE '^Run Time|^exclusive|^wal|^$' /run/commits | sed 's/^/SHOW sqlite: /'
}

# The same beside a backup, if there is a command for it: `beside NAME [COMMAND]`. GNU tar reads
# nothing when its archive is /dev/null, so that a pipe takes it.
beside() {
    name=$1
    shift
    reader=
    if [ $# -gt 0 ]; then
        # shellcheck disable=SC2016
        setsid sh -c 'while true; do
                echo 3 >/proc/sys/vm/drop_caches
                "$@" | cat >/dev/null
            done' backup "$@" 2>/run/backup &
        reader=$!
        # SLEEP: until the backup has found its speed.
        sleep "$evening_warm"
    fi
    from=$(awk '{ print $3 }' "/sys/block/$slow/stat")
    commits
    read_kib=$((($(awk '{ print $3 }' "/sys/block/$slow/stat") - from) / 2 / evening_span))
    if [ -n "$reader" ]; then
        kill -- "-$reader"
        wait "$reader" 2>/dev/null
        # SLEEP: until the last of them is gone.
        while pidof tar >/dev/null; do sleep 0.1; done
    fi
    tenths=$((count * 10 / evening_span))
    echo "SHOW $(printf '%-37s' "$name") $((tenths / 10)).$((tenths % 10)) commits/s," \
        "p99 $p99 ms, disk read with $read_kib KiB/s"
}

# The read-ahead of the mount, in KiB.
ahead() {
    number=$(stat -c %d /srv)
    cat "/sys/class/bdi/$((number / 256)):$((number % 256))/read_ahead_kb"
}

evening() {
    evening_disks ""
    beside "alone, without iopace"
    alone=$count
    beside "beside tar, without iopace" tar cf - -C /srv photos
    plain=$count
    insmod /modules/bfq.ko || wrong "no bfq"
    echo bfq >"/sys/block/$slow/queue/scheduler" || wrong "no bfq for the disk"
    beside "beside ionice -c3 tar, bfq" ionice -c3 tar cf - -C /srv photos
    peer=$count
    echo none >"/sys/block/$slow/queue/scheduler"
    # From here on: what a new user types.
    iopace setup /srv --yes >/run/setup 2>&1 || wrong "setup: $(cat /run/setup)"
    iopace mount --config /etc/iopace/mounts/srv.toml >/run/mounted 2>&1 ||
        wrong "no mount: $(cat /run/mounted)"
    beside "alone, in the mount"
    beside "beside tar, in the mount" tar cf - -C /srv photos
    through=$count
    beside "beside iopace nice tar, in the mount" iopace nice tar cf - -C /srv photos
    niced=$count
    sed -n '1s/^/SHOW /p' /run/backup
    echo "SHOW read-ahead of the mount: $(ahead) KiB"
    iopace nice --install tar >/run/installed 2>&1 || wrong "not installed: $(cat /run/installed)"
    iopace unmount /srv || wrong "not unmounted"
    umount /srv
    echo "$alone $plain $peer $through $niced" >/etc/figures
    umount /etc
    [ "$niced" -ge "$plain" ] || wrong "$niced commits by nice, $plain without iopace"
    [ "$niced" -ge "$through" ] || wrong "$niced commits by nice, $through without it in the mount"
    [ $((niced * 100)) -ge $((peer * (100 - noise))) ] ||
        wrong "$niced commits by nice, $peer by ionice and bfq"
    echo "SAID in $evening_span s: $alone commits alone, $plain beside tar, $peer with ionice and" \
        "bfq, $niced by nice"
}

# Another boot: what is in /etc has the mount made, and the backup is started as before iopace.
evening_again() {
    evening_disks again
    read -r alone plain peer through niced </etc/figures
    iopace mount --config /etc/iopace/mounts/srv.toml >/run/mounted 2>&1 ||
        wrong "no mount: $(cat /run/mounted)"
    beside "beside tar, after another boot" tar cf - -C /srv photos
    [ "$count" -ge "$plain" ] || wrong "$count commits after a boot, $plain without iopace"
    [ $((count * 100)) -ge $((niced * (100 - noise))) ] ||
        wrong "$count commits after a boot, $niced before"
    iopace unmount /srv || wrong "not unmounted"
    [ "$(sqlite3 /srv/cloud/db 'PRAGMA integrity_check')" = ok ] || wrong "the database is broken"
    echo "SAID in $evening_span s: $alone commits alone, $plain beside tar, $peer with ionice and" \
        "bfq, $through in a mount, $niced by iopace nice, $count after another boot"
}
