#!/bin/busybox sh
# The first program of the guest: does the job that the kernel's command line names, says `DONE`
# with a count of what was wrong, and powers off.
/bin/busybox mkdir -p /dev /proc /sys /run
/bin/busybox --install -s /bin
export PATH=/bin LD_LIBRARY_PATH=/lib64 DM_DISABLE_UDEV=1
mount -t devtmpfs none /dev
mount -t proc none /proc
read -r up _ </proc/uptime
echo "init $up"
mount -t sysfs none /sys
mount -t tmpfs none /run
mount -t tmpfs none /tmp
for module in virtio_blk libcrc32c xfs nbd dm-mod dm-bufio dm-snapshot dm-log-writes loop \
    inet_diag tcp_diag unix_diag; do
    insmod "/modules/$module.ko" 2>/dev/null
done
job=$(sed 's/.*job=\([^ ]*\).*/\1/' /proc/cmdline)
wrong=0

wrong() {
    wrong=$((wrong + 1))
    echo "WRONG: $*"
}

finish() {
    echo "DONE $wrong"
    sync
    poweroff -f
    # SLEEP: until the power is off.
    sleep 100
}

# The content of a file, which follows from its number.
content() {
    seq "$1" 7 $(($1 * 40 + 3000))
}

# An export of a disk, as /dev/nbd0.
serve() {
    iopace serve "$1" --socket /run/nbd --control /run/control >/run/log 2>&1 &
    server=$!
    tries=0
    # SLEEP: until the daemon listens.
    until [ -S /run/nbd ] || [ $((tries += 1)) -gt 600 ]; do sleep 0.1; done
    nbd-client -unix /run/nbd /dev/nbd0 -nonetlink -n >/run/nbd.log 2>&1 &
    # SLEEP: until the kernel has the size of the device.
    until [ "$(cat /sys/block/nbd0/size)" -gt 0 ] || [ $((tries += 1)) -gt 1200 ]; do
        # SLEEP: the next look.
        sleep 0.1
    done
    if [ "$(cat /sys/block/nbd0/size)" = 0 ]; then
        wrong "no export: $(cat /run/log /run/nbd.log)"
        finish
    fi
}

unserve() {
    nbd-client -d /dev/nbd0 >/dev/null 2>&1
    kill "$server"
    wait "$server"
}

make() {
    case $1 in
    ext4) mkfs.ext4 -q -E nodiscard "$2" ;;
    xfs) mkfs.xfs -q -K "$2" ;;
    esac || wrong "mkfs.$1"
}

# Writes file number $1 in /mnt; every third one replaces an older one, every fifth one goes.
put() {
    content "$1" >"/mnt/new"
    fsync /mnt/new
    mv /mnt/new "/mnt/file-$1"
    fsync "/mnt/file-$1"
    fsync /mnt
    if [ $(($1 % 5)) = 0 ]; then
        rm "/mnt/file-$(($1 - 2))"
        fsync /mnt
    fi
}

# Files 1 to $1 are there, but for those that went.
compare() {
    file=0
    while [ $((file += 1)) -le "$1" ]; do
        if [ $((file % 5)) = 3 ]; then
            # It goes with a later one.
            [ $((file + 2)) -gt "$1" ] || [ ! -e "/mnt/file-$file" ] ||
                wrong "file-$file is there again"
            continue
        fi
        content "$file" | cmp -s - "/mnt/file-$file" || wrong "file-$file of $1 is lost"
    done
}

check() {
    case $1 in
    ext4) e2fsck -fn "$2" >/run/check 2>&1 ;;
    xfs) xfs_repair -n "$2" >/run/check 2>&1 ;;
    esac || wrong "$1 is broken: $(tail -5 /run/check)"
}

logwrites() {
    sectors=$(cat /sys/block/vda/size)
    dmsetup create log --table "0 $sectors log-writes /dev/vda /dev/vdb" || wrong "no log"
    dmsetup mknodes
    serve /dev/mapper/log
    make "$1" /dev/nbd0
    mount -t "$1" /dev/nbd0 /mnt || wrong "not mounted"
    number=0
    while [ $((number += 1)) -le 12 ]; do
        put "$number"
        dmsetup message log 0 mark "m$number"
    done
    umount /mnt
    dmsetup message log 0 mark end
    unserve
    dmsetup remove log
    from="0 0"
    for number in 1 2 3 4 5 6 7 8 9 10 11 12; do
        # shellcheck disable=SC2086
        from=$(iopace-powercut replay /dev/vdb /dev/vdc $from "m$number") || wrong "m$number: $from"
        blockdev --flushbufs /dev/vdc
        # What recovery changes goes elsewhere: the disk is needed for the next mark.
        dd if=/dev/zero of=/dev/vdd bs=4k count=16 2>/dev/null
        dmsetup create look --table "0 $sectors snapshot /dev/vdc /dev/vdd N 8" || wrong "no look"
        dmsetup mknodes
        if mount -t "$1" /dev/mapper/look /mnt; then
            compare "$number"
            # Files that were written later are not there yet: the comparison has to say so.
            [ "$number" != 3 ] || compare 12 | grep -q WRONG || wrong "nothing is found missing"
            umount /mnt
            check "$1" /dev/mapper/look
        else
            wrong "m$number cannot be mounted"
        fi
        dmsetup remove look
        echo "mark m$number: $wrong wrong"
    done
    echo "SAID $1: 12 marks replayed, recovered, compared and checked"
}

# The disk whose name is `vm`, over vhost-user: files are written while the daemon behind it dies.
machine() {
    disk=$(grep -lx vm /sys/block/*/serial | cut -d/ -f4)
    if [ -z "$disk" ]; then
        wrong "there is no such disk"
        finish
    fi
    [ "$(ls "/sys/block/$disk/mq" | wc -l)" -ge 1 ] || wrong "no queues"
    make ext4 "/dev/$disk"
    mount -t ext4 "/dev/$disk" /mnt || wrong "not mounted"
    # Something is under way at all times.
    while true; do
        content 900 >/mnt/open
        fsync /mnt/open
    done &
    busy=$!
    number=0
    while [ $((number += 1)) -le 30 ]; do
        put "$number"
        echo "synced $number "
    done
    kill "$busy"
    wait "$busy"
    rm -f /mnt/open
    fstrim /mnt || wrong "no discard"
    compare 30
    umount /mnt
    check ext4 "/dev/$disk"
    mount -t ext4 "/dev/$disk" /mnt || wrong "not mounted again"
    compare 30
    umount /mnt
    echo "SAID ext4: 30 files synced, discarded, compared twice and checked"
}

# shellcheck source=scripts/guest/groups.sh
. /groups.sh
# shellcheck source=scripts/guest/containers.sh
. /containers.sh
# shellcheck source=scripts/guest/govern.sh
. /govern.sh
# shellcheck source=scripts/guest/ublk.sh
. /ublk.sh
# shellcheck source=scripts/guest/insert.sh
. /insert.sh
# shellcheck source=scripts/guest/evening.sh
. /evening.sh
# shellcheck source=scripts/guest/vmhost.sh
. /vmhost.sh
# shellcheck source=scripts/guest/clock.sh
. /clock.sh

case $job in
boot) finish ;;
groups) groups ;;
containers) containers ;;
govern) govern ;;
machine) machine ;;
ublk) ublk ;;
insert) insert_job ;;
evening) evening ;;
evening-again) evening_again ;;
vmhost) vmhost ;;
clock) clocks ;;
tests) tests ;;
logwrites-*) logwrites "${job#logwrites-}" ;;
write-*)
    number=${job#write-}
    serve /dev/vda
    [ "$number" -gt 0 ] || make ext4 /dev/nbd0
    mount -t ext4 /dev/nbd0 /mnt || wrong "not mounted"
    while true; do
        number=$((number + 1))
        put "$number"
        echo "synced $number "
        # Something is under way at all times.
        content 900 >/mnt/open &
    done
    ;;
verify-*)
    serve /dev/vda
    mount -t ext4 /dev/nbd0 /mnt || wrong "not mounted"
    compare "${job#verify-}"
    umount /mnt
    check ext4 /dev/nbd0
    unserve
    ;;
esac
finish
