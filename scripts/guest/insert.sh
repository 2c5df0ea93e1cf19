# shellcheck shell=sh
# Parts of init.sh: a daemon in front of a volume of LVM whose ext4 is mounted and busy. The
# functions of ublk.sh are there as well.

volume=/dev/mapper/vg-data

lv() {
    lvm "$@" --config 'devices{use_devicesfile=0} backup{backup=0 archive=0}
        activation{udev_sync=0 udev_rules=0 verify_udev_operations=1}' >/run/lvm.log 2>&1 ||
        wrong "lvm $*: $(cat /run/lvm.log)"
}

table() {
    dmsetup table vg-data
}

# The daemon of the record; not its watcher.
daemon() {
    iopace insert --format json | grep -o '"pid": *[0-9]*' | grep -o '[0-9]*'
}

state() {
    iopace insert --format json | sed -n 's/.*"state": *"\([^"]*\)".*/\1/p'
}

insert() {
    iopace insert "$volume" "$@" >/run/said 2>&1 || wrong "insert $*: $(cat /run/said)"
}

remove() {
    iopace remove "$volume" "$@" >/run/said 2>&1 || wrong "remove $*: $(cat /run/said)"
}

# Nothing but the volume, as it was made.
out() {
    tries=0
    # SLEEP: until processes that were killed are gone, and what they had open with them.
    until left=$(dmsetup ls | grep iopace; ls /dev/ublkb* /run/iopace/attach-* 2>/dev/null;
        daemons); [ -z "$left" ] || [ $((tries += 1)) -gt 200 ]; do sleep 0.1; done
    [ -z "$left" ] || wrong "$1: left behind: $left"
    [ "$(table)" = "$original" ] || wrong "$1: the table is '$(table)'"
}

# Until the watcher has taken the volume out.
await_out() {
    tries=0
    # SLEEP: the next look.
    until [ "$(table)" = "$original" ] || [ $((tries += 1)) -gt 600 ]; do sleep 0.1; done
    out "$1"
}

# Files of which nothing may be lost: written by fio past the page cache, and by way of it. Two
# requests for the same place are never under way at once (`serialize_overlap`): nobody promises
# which of them is the last, and fio takes the other one for an error.
busy() {
    cd /run || exit
    fio --name=verify --directory=/mnt --size=24M --rw=randrw --bs=16k --ioengine=libaio \
        --iodepth=16 --direct=1 --verify=crc32c --verify_backlog=64 --serialize_overlap=1 \
        --verify_dump=1 --time_based --runtime=7200 --fallocate=none \
        --trigger-file=/run/enough --output=/run/fio >/run/fio-said 2>&1 &
    fio=$!
    fio --name=cached --directory=/mnt --size=24M --rw=randwrite --bs=4k --ioengine=psync \
        --fsync=32 --verify=crc32c --verify_backlog=64 --verify_dump=1 --time_based \
        --runtime=7200 --fallocate=none --trigger-file=/run/enough-2 --output=/run/fio-2 \
        >/run/fio-2-said 2>&1 &
    fio_2=$!
    cd / || exit
}

# What fio found, and the first bytes of what it expected and of what was there.
found() {
    grep -h -e err= -e error /run/fio /run/fio-2
    cat /run/fio-said /run/fio-2-said
    for dump in /run/*.received /run/*.expected; do
        [ ! -e "$dump" ] || { echo "$dump"; hexdump -C -n 64 "$dump"; }
    done
}

at_ease() {
    touch /run/enough /run/enough-2
    wait "$fio" || wrong "fio: $(tail -30 /run/fio)"
    wait "$fio_2" || wrong "fio by the page cache: $(tail -30 /run/fio-2)"
    rm -f /run/enough /run/enough-2
}

working() {
    kill -0 "$fio" 2>/dev/null && kill -0 "$fio_2" 2>/dev/null ||
        { wrong "fio has ended: $(found)"; return 1; }
}

# Inserted, exchanged, killed in three ways, taken out, again and again.
insert_rounds() {
    rounds=0
    kills=0
    exchanges=0
    while [ $((rounds += 1)) -le "$1" ] && working; do
        insert
        [ "$(state)" = inserted ] || wrong "round $rounds: $(iopace insert)"
        for algorithm in rr deadline; do
            iopace sched insert -a "$algorithm" vg-data >/run/said 2>&1 ||
                wrong "sched insert: $(cat /run/said)"
            exchanges=$((exchanges + 1))
            iopace sched destroy vg-data >/run/said 2>&1 || wrong "destroy: $(cat /run/said)"
        done
        case $((rounds % 4)) in
        0) remove ;;
        1)
            kill -9 "$(daemon)"
            kills=$((kills + 1))
            await_out "round $rounds, its watcher"
            ;;
        2)
            kill_daemons
            kills=$((kills + 1))
            remove --rescue
            ;;
        3)
            kill_daemons
            kills=$((kills + 1))
            insert
            grep -q "inserted into" /run/said || wrong "not again: $(cat /run/said)"
            remove
            ;;
        esac
        out "round $rounds"
        [ $((rounds % 50)) != 0 ] || echo "insert: $rounds rounds, $kills kills"
    done
}

# The daemon is killed at its Nth call of a kind while it is inserted, for each N.
insert_kills() {
    call=0
    while [ $((call += 1)) -lt 80 ] && working; do
        strace -f -qq -o /run/trace -e "trace=$1" -e "inject=$1:signal=KILL:when=$call" \
            iopace insert "$volume" >/run/out 2>&1 &
        tracer=$!
        # SLEEP: strace ends with what it traces, and not at all if a daemon is left to live.
        until grep -q ^/dev/mapper /run/out || ! kill -0 "$tracer" 2>/dev/null; do sleep 0.1; done
        echo "insert: killed at $1 $call: $(head -1 /run/out)"
        if grep -q ^/dev/mapper /run/out; then break; fi
        wait "$tracer"
        kill_daemons
        iopace remove "$volume" >/run/said 2>&1
        out "killed at $1 $call"
    done
    kill "$tracer" 2>/dev/null
    kill_daemons
    wait "$tracer"
    remove --rescue
    out "after $1"
    [ "$call" -gt 3 ] || wrong "killed at $call calls of $1 only"
}

# More is written than there is memory for, and other memory is in use as well.
insert_pressure() {
    insert
    free=$(awk '/MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)
    dd if=/dev/zero of=/tmp/hog bs=1M count=$((free - 100)) 2>/dev/null
    dd if=/dev/urandom of=/mnt/much bs=1M count=120 2>/run/dd || wrong "dd: $(cat /run/dd)"
    sum=$(md5sum </mnt/much)
    fsync /mnt/much || wrong "not synced"
    echo 3 >/proc/sys/vm/drop_caches
    [ "$(md5sum </mnt/much)" = "$sum" ] || wrong "other data under pressure"
    rm /tmp/hog /mnt/much
    remove
    out "pressure"
}

# The program itself, and its libraries, are on the volume: nothing of it is in memory when it is
# needed, but for what daemon and watcher keep there.
insert_from_volume() {
    mkdir /mnt/programs
    cp /bin/iopace /lib64/* /mnt/programs/
    fsync /mnt/programs/iopace
    LD_LIBRARY_PATH=/mnt/programs /mnt/programs/iopace insert "$volume" >/run/said 2>&1 ||
        wrong "insert from the volume: $(cat /run/said)"
    dd if=/dev/urandom of=/mnt/written bs=64k count=400 oflag=direct 2>/run/dd &
    writer=$!
    echo 3 >/proc/sys/vm/drop_caches
    kill -9 "$(daemon)"
    await_out "from the volume"
    wait "$writer" || wrong "dd: $(cat /run/dd)"
    rm -r /mnt/programs /mnt/written
}

insert_refusals() {
    refused "is no volume of the device mapper" iopace insert /dev/vdb
    refused "no daemon is in front" iopace remove "$volume"
    insert
    refused "in front of it already" iopace insert "$volume"
    refused "iopace remove" iopace detach vg-data
    dmsetup mknodes
    below=$(dmsetup ls | sed -n 's/^\([^ \t]*-iopace\).*/\1/p')
    refused "name that one" iopace insert "/dev/mapper/$below"
    remove
    out "refusals before"
    refused "is on the volume itself" iopace insert "$volume" --log /mnt/log
    IOPACE_RUNTIME_DIR=/mnt/run
    export IOPACE_RUNTIME_DIR
    refused "is on the volume itself" iopace insert "$volume"
    unset IOPACE_RUNTIME_DIR
    rm -rf /mnt/run
    # Nobody inserts beside a command that is at it.
    flock -F "/dev/dm-$(dmsetup info -c --noheadings -o minor vg-data)" sleep 1000 &
    locked=$!
    refused "somebody else is at it" iopace insert "$volume"
    kill "$locked"
    wait "$locked"
    dmsetup suspend --nolockfs vg-data
    refused "or it is suspended" iopace insert "$volume"
    dmsetup resume vg-data
    insert
    # Somebody else has the table go elsewhere: it is left so.
    dmsetup load vg-data --table "$original" && dmsetup resume vg-data
    [ "$(state)" = bypassed ] || wrong "not seen: $(iopace insert)"
    remove
    out "refusals"
    # Told to end, as a system that goes down does.
    insert
    kill "$(daemon)"
    await_out "told to end"
}

insert_job() {
    dd if=/dev/zero of=/run/image bs=1M count=1 2>/dev/null
    refused "modprobe ublk_drv" iopace insert /dev/vda
    insmod /modules/ublk_drv.ko || wrong "no ublk_drv"
    mkdir -p /run/lock/lvm /etc/lvm
    lv pvcreate /dev/vda /dev/vdb
    lv vgcreate vg /dev/vda /dev/vdb
    lv lvcreate -y -i 2 -L 360M -n data vg
    dmsetup mknodes
    original=$(table)
    mkfs.ext4 -q "$volume" || wrong "mkfs.ext4"
    mount -t ext4 "$volume" /mnt || wrong "not mounted"
    insert_refusals
    busy
    insert_kills ioctl
    insert_kills io_uring_enter
    insert_rounds "$(sed -n 's/.*rounds=\([0-9]*\).*/\1/p' /proc/cmdline)"
    at_ease
    insert_from_volume
    insert_pressure
    umount /mnt || wrong "not unmounted"
    check ext4 "$volume"
    lv lvcreate -y -s -L 8M -n snap vg/data
    refused "cannot be there twice" iopace insert "$volume"
    dmesg | grep -iE 'i/o error|ext4-fs error|hung task' && wrong "the kernel complains"
    echo "SAID $((rounds - 1)) rounds under fio, $exchanges schedulers exchanged, $kills kills" \
        "in front and $call within"
}
