# shellcheck shell=sh
# Parts of init.sh: block devices of ublk_drv, whose daemons are killed.

# The processes of iopace. Nobody else has any here.
daemons() {
    pidof iopace
}

# Kills all of them, at whatever they are.
kill_daemons() {
    # shellcheck disable=SC2046
    kill -9 $(daemons) 2>/dev/null
    true
}

# The device that was attached, or takes it over: `attach WORDS...`.
attach() {
    iopace attach --ublk "$@" 2>/run/said || wrong "attach $*: $(cat /run/said)"
}

# How often a text is in the list of what is attached.
listed() {
    iopace attach --list --format json | grep -o "$1" | wc -l
}

# Waits until a daemon that was killed is gone, and its device waits.
await_waiting() {
    tries=0
    # SLEEP: the next look.
    until [ "$(listed waiting)" = 1 ] || [ $((tries += 1)) -gt 100 ]; do sleep 0.1; done
    [ "$tries" -le 100 ] || wrong "not listed as waiting: $(iopace attach)"
}

nothing_left() {
    left=$(ls /dev/ublkb* /dev/ublkc* /run/iopace/attach-* 2>/dev/null)
    [ -z "$left" ] || wrong "$1: left behind: $left"
}

# Says that a call fails with a text: `refused TEXT COMMAND...`.
refused() {
    text=$1
    shift
    if "$@" >/run/refused 2>&1; then wrong "not refused: $*"; fi
    grep -qF -- "$text" /run/refused || wrong "$*: not '$text': $(cat /run/refused)"
}

# fio writes and verifies while the daemon is killed and another takes over, again and again. As in
# insert.sh, two requests for the same place are never under way at once.
ublk_kills() {
    fio --name=verify --directory=/mnt --size=24M --rw=randrw --bs=16k --ioengine=libaio \
        --iodepth=16 --direct=1 --verify=crc32c --verify_backlog=64 --serialize_overlap=1 \
        --time_based --runtime=60 --fallocate=none --output=/run/fio >/dev/null 2>&1 &
    fio=$!
    kills=0
    while kill -0 "$fio" 2>/dev/null; do
        # SLEEP: some requests are on their way again.
        sleep 1
        kill_daemons
        attach /dev/vda >/dev/null
        grep -q 'taken over' /run/said || wrong "not taken over: $(cat /run/said)"
        kills=$((kills + 1))
    done
    wait "$fio" || wrong "fio after $kills kills: $(tail -30 /run/fio)"
    [ "$kills" -ge 5 ] || wrong "killed $kills times only"
}

# Whoever takes over is killed as well: at its Nth system call of io_uring, by which it talks to
# the driver, for each N, until it is done before.
ublk_takeovers() {
    takeovers=0
    dd if=/dev/urandom of=/mnt/before bs=1M count=4 2>/dev/null
    sum=$(md5sum </mnt/before)
    while [ $((takeovers += 1)) -lt 60 ]; do
        kill_daemons
        # Written while nobody serves it: the request waits all the time.
        dd if=/mnt/before of="/mnt/after-$takeovers" bs=1M conv=fsync 2>/run/dd-$takeovers &
        writer=$!
        strace -f -qq -o /run/trace -e trace=io_uring_enter \
            -e inject=io_uring_enter:signal=KILL:when="$takeovers" \
            iopace attach --ublk /dev/vda >/run/out 2>&1
        status=$?
        ended=$(grep -c 'killed by SIGKILL' /run/trace)
        kill_daemons
        attach /dev/vda >/dev/null
        wait "$writer" || wrong "takeover $takeovers: $(cat /run/dd-$takeovers)"
        [ "$(md5sum <"/mnt/after-$takeovers")" = "$sum" ] || wrong "takeover $takeovers: other data"
        rm "/mnt/after-$takeovers"
        echo "takeover $takeovers: status $status, $ended threads killed, then served"
        # It was served before it came that far.
        if [ "$status" = 0 ]; then break; fi
    done
    [ "$takeovers" -gt 5 ] || wrong "killed in $takeovers takeovers only"
}

# The same while a device is made: nothing is left of it that the next command does not find.
ublk_makings() {
    makings=0
    while [ $((makings += 1)) -lt 60 ]; do
        strace -f -qq -o /run/trace -e trace=io_uring_enter \
            -e inject=io_uring_enter:signal=KILL:when="$makings" \
            iopace attach --ublk /run/image >/run/out 2>&1 &
        tracer=$!
        # SLEEP: strace ends with what it traces, and not at all if a daemon is left to live.
        until grep -q ^/dev/ublkb /run/out || ! kill -0 "$tracer" 2>/dev/null; do sleep 0.1; done
        echo "making $makings: $(head -1 /run/out)"
        if grep -q ^/dev/ublkb /run/out; then break; fi
        wait "$tracer"
        kill_daemons
        iopace detach --all >/run/detached 2>&1 || wrong "making $makings: $(cat /run/detached)"
        nothing_left "making $makings"
    done
    kill "$tracer" 2>/dev/null
    kill_daemons
    wait "$tracer"
    [ "$makings" -gt 3 ] || wrong "killed in $makings makings only"
    # At moments that no call marks.
    for moment in 1 2 3 4 5 6 7 8 9 10; do
        iopace detach --all >/dev/null 2>&1
        iopace attach --ublk /run/image >/run/out 2>&1 &
        # SLEEP: until some moment of its start.
        usleep $((moment * 40000))
        kill_daemons
        wait $!
        iopace detach --all >/run/detached 2>&1 || wrong "moment $moment: $(cat /run/detached)"
        nothing_left "moment $moment"
    done
}

ublk_options() {
    refused "modprobe ublk_drv" iopace attach --ublk /run/image
    insmod /modules/ublk_drv.ko || wrong "no ublk_drv"
    dd if=/dev/urandom of=/run/image bs=1M count=32 2>/dev/null
    disk=$(attach /run/image --block-size 4096)
    [ "$disk" = /dev/ublkb0 ] || wrong "attached as '$disk'"
    [ "$(cat /sys/block/ublkb0/queue/logical_block_size)" = 4096 ] || wrong "other sectors"
    queues=$(find /sys/block/ublkb0/mq -mindepth 1 -maxdepth 1 | wc -l)
    cmp "$disk" /run/image || wrong "other data"
    before=$(du -k /run/image | cut -f1)
    blkdiscard -o 0 -l 16777216 "$disk" || wrong "no discard"
    after=$(du -k /run/image | cut -f1)
    [ $((before - after)) -ge 16384 ] || wrong "discard: $before KiB, then $after"
    dd if=/dev/zero bs=1M count=16 2>/dev/null | cmp -n 16777216 - "$disk" || wrong "no zeroes"
    dd if=/dev/urandom of=/run/data bs=1M count=8 2>/dev/null
    dd if=/run/data of="$disk" bs=1M seek=4 conv=notrunc,fsync oflag=direct 2>/dev/null ||
        wrong "direct writes"
    dd if=/run/image bs=1M skip=4 count=8 2>/dev/null | cmp - /run/data || wrong "data are lost"
    refused "another process serves it already" iopace attach --ublk /run/image
    [ "$(listed serving)" = 1 ] || wrong "not listed"
    kill_daemons
    await_waiting
    refused "'iopace attach --ublk' to go on" iopace attach /run/image
    refused "in sectors of 4096" iopace attach --ublk /run/image
    iopace detach "$disk" || wrong "what waits is not given up"
    nothing_left "given up"
    disk=$(attach /run/image --read-only)
    refused "" dd if=/run/data of="$disk" bs=4k count=1 conv=fsync
    kill "$(iopace attach --list --format json | grep -o '"pid": *[0-9]*' | grep -o '[0-9]*')"
    tries=0
    # SLEEP: until the daemon that was told to end has.
    while [ -n "$(daemons)" ] && [ $((tries += 1)) -lt 300 ]; do sleep 0.1; done
    nothing_left "told to end"
    # In memory: gone with its daemon.
    attach --emulate ssd-sata --size 64M >/dev/null
    kill_daemons
    attach /run/image >/dev/null
    grep -q 'its data with it' /run/said || wrong "nothing is said: $(cat /run/said)"
    iopace detach --all || wrong "not detached"
    nothing_left "in memory"
}

# A daemon that is told to end has the file system on its device written, and nothing is lost.
ublk_end() {
    disk=$(attach /run/image)
    mkfs.ext4 -q "$disk" || wrong "mkfs.ext4"
    mount -t ext4 "$disk" /mnt || wrong "not mounted"
    dd if=/run/data of=/mnt/unsynced bs=1M 2>/dev/null
    kill "$(daemons)"
    tries=0
    # SLEEP: until the daemon that was told to end has.
    while [ -n "$(daemons)" ] && [ $((tries += 1)) -lt 300 ]; do sleep 0.1; done
    umount /mnt 2>/dev/null
    disk=$(attach /run/image)
    mount -t ext4 "$disk" /mnt || wrong "not mounted again"
    cmp /run/data /mnt/unsynced || wrong "what was not synced is lost"
    umount /mnt
    iopace detach --all || wrong "not detached"
    nothing_left "ended while mounted"
    # Another file of the same name is not written by the device of the old one.
    disk=$(attach /run/image)
    kill_daemons
    await_waiting
    mv /run/image /run/old
    cp /run/old /run/image
    refused "with another file" iopace attach --ublk /run/image
    mv /run/old /run/image
    attach /run/image >/dev/null
    iopace detach --all || wrong "not detached"
}

ublk() {
    dd if=/dev/zero of=/run/image bs=1M count=1 2>/dev/null
    ublk_options
    ublk_end
    ublk_makings
    iopace detach --all >/dev/null 2>&1
    disk=$(attach /dev/vda)
    mkfs.ext4 -q "$disk" || wrong "mkfs.ext4"
    mount -t ext4 "$disk" /mnt || wrong "not mounted"
    refused "is mounted at /mnt" iopace detach "$disk"
    ublk_takeovers
    ublk_kills
    umount /mnt || wrong "not unmounted"
    check ext4 "$disk"
    iopace detach "$disk" || wrong "not detached"
    nothing_left "the end"
    check ext4 /dev/vda
    echo "SAID $queues queues; killed $kills times under fio, in $takeovers takeovers and" \
        "$makings makings; discard, sectors, read-only, refusals"
}
