#!/usr/bin/env bash
# A guest of QEMU's emulation (no KVM) with Debian's 6.12 cloud kernel, for what needs a kernel of
# its own: `guest.sh [--format table|json] [PART]`, all parts unless one is named. Nothing is
# installed: packages are fetched by apt-get and unpacked below the target directory. Skipped,
# aloud, where that cannot be done. Ends with a table: part, what it saw, result, seconds.
#
#   boot       to the first line of init: how long that takes, by the clocks of host and guest
#   logwrites  ext4 and XFS on an export over nbd.ko, dm-log-writes below iopace's disk: at every
#              mark the log is replayed, the file system is checked and files are compared
#   reset      ext4 the same way; QEMU is killed while files are written, and those that were
#              synced are compared after another boot
#   groups     a mount whose rules map cgroups of version 2, with writers in four of them
#   containers a limit of the kernel for a cgroup, held through a mount for buffered writes; and
#              annotations of containers of runc and crun, by `iopace container-hook`
#   govern     a cgroup that gives way to another one, by `iopace govern` and without it
#   machine    ext4 on an export that is the guest's own disk over vhost-user, with two queues; the
#              daemon is killed four times meanwhile, and goes on with the requests in flight
#   ublk       ext4 on a block device of ublk_drv, whose daemon is killed under fio, while another
#              takes it over, and while it is made
#   insert     a daemon in front of a volume of LVM whose ext4 is mounted, under fio: inserted,
#              exchanged, killed and taken out GUEST_ROUNDS (40) times
#   evening    SQLite commits beside a backup on a slow disk: without iopace, under ionice and bfq,
#              by `iopace nice` in a mount, and after another boot. GUEST_DISK: its bytes and
#              requests per second (20971520 120)
#   vmhost     eleven disks over TLS with QEMU's client, each with a certificate of its own: one
#              added and resized live, one limited; the daemon restarted and killed meanwhile
#   clock      two hosts of a volume with a limit in common, while the clock of the day is set
#   tests      unit tests of the daemon that ask the kernel, with cgroup v2 alone
#
# GUEST_SECONDS: longest time of one guest. GUEST_CPUS: its processors. GUEST_BUILD=no: programs
# are taken as they were built last.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."
usage() {
    echo "guest.sh [--format table|json] [all|boot|logwrites|reset|groups|containers|govern|" \
        "machine|ublk|insert|evening|vmhost|clock|tests]" >&2
    exit 2
}
format=table
if [ "${1:-}" = --format ]; then
    format=${2:-}
    shift $(($# < 2 ? $# : 2))
fi
case $format in table | json) ;; *) usage ;; esac
case ${1:-all} in
all) parts=(boot logwrites-ext4 logwrites-xfs reset groups containers govern machine ublk insert
    evening vmhost clock tests) ;;
logwrites) parts=(logwrites-ext4 logwrites-xfs) ;;
boot | reset | groups | containers | govern | machine | ublk | insert | evening | vmhost | \
    clock | tests) parts=("$1") ;;
*) usage ;;
esac
# Progress is for people: not where a program reads.
exec 3>&1
[ "$format" = table ] || exec 3>&2
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
cache=$target/guest
suite=bookworm
# Longest time of one guest, in seconds: emulation on a busy machine is slow.
most=${GUEST_SECONDS:-900}
# One processor unless told otherwise: the threads of two, starved by a busy host, spend their turns
# on waiting for each other (the same boot took 8 s with one and 32 s with two).
cpus=${GUEST_CPUS:-1}

skip() {
    echo "skipped: $1" >&3
    [ "$format" = table ] || echo "{\"skipped\":\"$1\",\"parts\":[]}"
    exit 0
}
for tool in qemu-system-x86_64 apt-get apt-cache dpkg-deb dmsetup mkfs.ext4 xz; do
    command -v "$tool" >/dev/null || skip "$tool is missing (qemu-system-x86, dmsetup)"
done
# Leaves parts out, aloud, whose programs are missing: `without PROGRAM PARTS`.
without() {
    local part
    ! command -v "$1" >/dev/null || return 0
    for part in "${@:2}"; do
        [ "${parts[*]}" != "$part" ] || skip "$1 is missing"
        parts=("${parts[@]/%"$part"/}")
    done
}
without fio ublk insert
without strace ublk insert
without sqlite3 evening
without qemu-io vmhost
without openssl vmhost
without etcd clock
mkdir -p "$cache/debs" "$cache/run"
run=$(mktemp -d "$cache/run/XXXXXX")
guest= daemon=
end() {
    [ -z "$guest" ] || kill -9 "$guest" 2>/dev/null || true
    [ -z "$daemon" ] || kill -9 "$daemon" 2>/dev/null || true
    rm -rf "$run"
}
trap end EXIT
trap 'exit 130' INT TERM

# The newest 6.12 of the cloud, and what the host need not have.
fetch() {
    if [ -e "$cache/tree/usr/bin/crun" ]; then return; fi
    local kernel
    kernel=$(apt-cache search --names-only '^linux-image-6\.12.*-cloud-amd64$' |
        awk '$1 ~ /[0-9]\+deb/ { print $1 }' | sort -V | tail -1)
    [ -n "$kernel" ] || skip "apt-get knows no 6.12 cloud kernel ($suite-security)"
    rm -rf "$cache/tree"
    if ! ls "$cache"/debs/linux-image-* "$cache"/debs/crun* >/dev/null 2>&1; then
        (cd "$cache/debs" && apt-get -qq download "$kernel" busybox-static nbd-client xfsprogs \
            libinih1 liburcu8 libnl-3-200 libnl-genl-3-200 lvm2 libdevmapper-event1.02.1 \
            liblvm2cmd2.03 libaio1 libedit2 libbsd0 libmd0 runc crun libyajl2 libseccomp2 \
            2>/dev/null) ||
            skip "packages cannot be fetched: apt-get update"
    fi
    for deb in "$cache"/debs/*.deb; do
        dpkg-deb -x "$deb" "$cache/tree"
    done
}

# Copies programs with their libraries.
put() {
    local program library
    mkdir -p "$run"/tree/{bin,lib64}
    for program in "$@"; do
        cp -L "$program" "$run/tree/bin/"
        LD_LIBRARY_PATH=$cache/tree/usr/lib/x86_64-linux-gnu:$cache/tree/lib/x86_64-linux-gnu \
            ldd "$program" | grep -oE '/[^ ]+' | while read -r library; do
            cp -Ln "$library" "$run/tree/lib64/" 2>/dev/null || true
        done
    done
}

# Whether a part is asked for.
wanted() {
    case " ${parts[*]} " in *" $1 "*) ;; *) return 1 ;; esac
}

# The programs, in $target/debug, and the unit tests of the daemon, in $tests.
build() {
    [ "${GUEST_BUILD:-}" = no ] || cargo build -q -p iopace -p iopace-powercut
    wanted tests || return 0
    if [ "${GUEST_BUILD:-}" = no ]; then
        # shellcheck disable=SC2010,SC2012
        tests=$(ls -t "$target"/debug/deps/iopace_daemon-* | grep -vF . | head -1)
        return
    fi
    tests=$(cargo test -q --no-run -p iopace-daemon --lib --message-format json |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1)
}

# Writes what is in $run/tree to a file, and empties it.
pack() {
    (cd "$run/tree" && find . | "$cache/tree/bin/busybox" cpio -o -H newc 2>/dev/null) >"$1"
    rm -rf "$run/tree"
}

initramfs() {
    local root=$run/tree module modules part
    mkdir -p "$root"/{bin,lib64,modules,dev,proc,sys,tmp,mnt,run,etc,var/tmp}
    cp "$cache/tree/bin/busybox" "$root/bin/"
    put "$target/debug/iopace" "$target/debug/iopace-powercut" \
        "$cache/tree/sbin/nbd-client" "$cache/tree/sbin/mkfs.xfs" \
        "$cache/tree/sbin/xfs_repair" "$(command -v mkfs.ext4)" "$(command -v e2fsck)" \
        "$(command -v dmsetup)"
    # coreutils' sync, which syncs one file or directory.
    cp -L "$(command -v sync)" "$root/bin/fsync"
    strip "$root"/bin/iopace* 2>/dev/null || true
    modules=$(echo "$cache"/tree/lib/modules/*)
    for module in virtio_blk libcrc32c xfs nbd dm-mod dm-bufio dm-snapshot dm-log-writes loop \
        inet_diag tcp_diag unix_diag ublk_drv bfq; do
        find "$modules" -name "$module.ko.xz" -exec cp {} "$root/modules/" \;
    done
    xz -d "$root"/modules/*.xz
    cp scripts/guest/init.sh "$root/init"
    cp scripts/guest/{groups,containers,govern,ublk,insert,evening,vmhost,clock}.sh "$root/"
    chmod +x "$root/init"
    echo root:x:0:0::/:/bin/sh >"$root/etc/passwd"
    pack "$run/initramfs"
    # The kernel reads one archive after the other; these are big, and each is for one part.
    for part in ublk insert; do
        wanted "$part" || continue
        put "$(command -v fio)" "$(command -v strace)"
        [ "$part" != insert ] || put "$cache/tree/sbin/lvm" "$(command -v flock)"
        join "$part"
    done
    if wanted containers; then
        put "$cache/tree/usr/sbin/runc" "$cache/tree/usr/bin/crun"
        join containers
    fi
    if wanted evening; then
        put "$(command -v sqlite3)" "$(command -v tar)"
        cp /usr/libexec/coreutils/libstdbuf.so "$root/lib64/"
        join evening
    fi
    if wanted clock; then
        put "$(command -v etcd)"
        join clock
    fi
    if wanted vmhost; then
        put "$(command -v qemu-io)"
        certificates "$root/pki"
        join vmhost
    fi
    if wanted tests; then
        put "$tests"
        mv "$root/bin/${tests##*/}" "$root/bin/iopace-tests"
        strip "$root/bin/iopace-tests" 2>/dev/null || true
        join tests
    fi
}

# What is in $run/tree, beside what every guest has: for one job.
join() {
    pack "$run/beside"
    cat "$run/initramfs" "$run/beside" >"$run/initramfs-$1"
    rm "$run/beside"
}

# Boots a guest for a job: `boot JOB [OPTIONS]`; its console is in $run/console.
boot() {
    local disks=() disk files=initramfs
    [ ! -e "$run/initramfs-${1%-again}" ] || files=initramfs-${1%-again}
    for disk in a b c d; do
        [ -e "$run/$disk" ] || truncate -s 400M "$run/$disk"
        disks+=(-drive "file=$run/$disk,if=virtio,format=raw,cache=writeback")
    done
    : >"$run/console"
    setpriv --pdeathsig KILL qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp "$cpus" \
        -m 1536 -nodefaults -no-reboot -display none -serial "file:$run/console" \
        -kernel "$cache"/tree/boot/vmlinuz-* -initrd "$run/$files" "${disks[@]}" \
        -append "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check job=$1 \
            rounds=${GUEST_ROUNDS:-40}" \
        "${@:2}" </dev/null &
    guest=$!
}

# Waits until the console has a line, or the guest has ended: `await PATTERN`.
await() {
    local start=$SECONDS
    until grep -qE "$1" "$run/console"; do
        if ! kill -0 "$guest" 2>/dev/null || [ $((SECONDS - start)) -ge "$most" ]; then
            grep -qE "$1" "$run/console" && return
            said="no \"$1\" within $most s, or the guest has ended"
            echo "the guest has not said \"$1\":" >&3
            tail -40 "$run/console" >&3
            return 1
        fi
        # Ticks of the processor, in user and in system mode, as long as the guest is there.
        { read -r -a fields <"/proc/$guest/stat"; } 2>/dev/null || true
        # SLEEP: between two looks at the console.
        sleep 0.2
    done
}

gone() {
    kill -9 "$guest" 2>/dev/null || true
    wait "$guest" 2>/dev/null || true
    guest=
}

# Lines of the console, without the carriage returns of a serial line.
lines() {
    tr -d '\r' <"$run/console" | grep -E "$1" || true
}

# One guest on empty disks that has nothing to complain of: `once JOB LINES [OPTIONS]`, with the
# lines that are shown.
once() {
    rm -f "$run"/[abcd]
    boot "$1" "${@:3}"
    await '^DONE' || return 1
    gone
    lines "^(WRONG|$2)" >&3
    said=$(lines '^SAID ' | tail -1)
    said=${said#SAID }
    [ -z "$(lines '^WRONG')" ] || said="$(lines '^WRONG' | wc -l) wrong${said:+; $said}"
    grep -q '^DONE 0' "$run/console"
}

boot_only() {
    local start=${EPOCHREALTIME/./} load used
    load=$(cut -d' ' -f1 /proc/loadavg)
    once boot 'init' || return 1
    used=$(((fields[13] + fields[14]) * 10 / $(getconf CLK_TCK)))
    said="init after $(tenths "$start") s, $(lines '^init' | cut -d' ' -f2) s by the guest's clock,"
    said+=" $((used / 10)).$((used % 10)) s of processor time; load of the host $load"
}

reset() {
    local synced=0
    rm -f "$run"/[abcd]
    while [ "$synced" -lt 24 ]; do
        boot "write-$synced"
        await "^synced $((synced + 12)) " || return 1
        gone
        synced=$(grep -oE '^synced [0-9]+ ' "$run/console" | tail -1 | grep -oE '[0-9]+')
        boot "verify-$synced"
        await '^DONE' || return 1
        gone
        echo "killed after $synced files: $(lines '^(DONE|WRONG)')" >&3
        said="killed twice, the second time after $synced synced files"
        grep -q '^DONE 0' "$run/console" || return 1
    done
}

# The daemon whose export is a disk of the guest.
machine_daemon() {
    IOPACE_RUNTIME_DIR=$run setpriv --pdeathsig KILL "$target/debug/iopace" serve "$run/vm" \
        --vhost-user "$run/vm.sock" --no-control >>"$run/daemon.log" 2>&1 &
    daemon=$!
    local tries=0
    # SLEEP: until the daemon listens.
    until [ -S "$run/vm.sock" ] || [ $((tries += 1)) -gt 100 ]; do sleep 0.1; done
}

machine() {
    local kills=0
    truncate -s 400M "$run/vm"
    rm -f "$run"/[abcd]
    machine_daemon
    boot machine -object memory-backend-memfd,id=memory,size=1536M,share=on \
        -machine memory-backend=memory -chardev "socket,id=vm,path=$run/vm.sock,reconnect=1" \
        -device vhost-user-blk-pci,chardev=vm,num-queues=2
    for file in 4 9 15 22; do
        await "^(synced $file |DONE)" || return 1
        kill -9 "$daemon"
        wait "$daemon" 2>/dev/null || true
        kills=$((kills + 1))
        machine_daemon
    done
    await '^DONE' || return 1
    gone
    kill "$daemon"
    wait "$daemon" || { said="the daemon ended with $?"; tail "$run/daemon.log" >&3; return 1; }
    daemon=
    lines '^WRONG' >&3
    said="$(lines '^SAID ' | sed 's/^SAID //'); daemon killed $kills times"
    grep -q '^DONE 0' "$run/console"
}

# shellcheck source=scripts/guest/host.sh
. scripts/guest/host.sh

# Seconds since a moment in microseconds, with one digit.
tenths() {
    local tenths=$(((${EPOCHREALTIME/./} - $1) / 100000))
    echo "$((tenths / 10)).$((tenths % 10))"
}

part() {
    case $1 in
    boot) boot_only ;;
    logwrites-*) once "$1" 'mark' ;;
    reset) reset ;;
    groups | containers) once "$1" 'SHOW' ;;
    govern) governed ;;
    evening) evening ;;
    vmhost | clock) once "$1" 'SHOW' ;;
    machine) machine ;;
    ublk) once ublk 'takeover' ;;
    insert) once insert 'insert:' ;;
    tests) once tests '.*skipped( in part)?: |SHOW|.*FAILED$|test result' ;;
    esac
}

begun=${EPOCHREALTIME/./}
fetch
build
initramfs
echo "built and packed in $(tenths "$begun") s" >&3
rows=()
status=0
for one in "${parts[@]}"; do
    [ -n "$one" ] || continue
    begun=${EPOCHREALTIME/./}
    said= result=passed fields=()
    part "$one" || { result=failed status=1; }
    [ -z "$guest" ] || gone
    rows+=("$one"$'\t'"$said"$'\t'"$result"$'\t'"$(tenths "$begun")")
    echo "$one: $result, $said" >&3
done
if [ "$format" = json ]; then
    printf '%s\n' "${rows[@]}" | sed 's/["\\]/\\&/g' | awk -F'\t' '
        BEGIN { printf "{\"parts\":[" }
        { printf "%s{\"part\":\"%s\",\"what\":\"%s\",\"result\":\"%s\",\"seconds\":%s}",
              (NR == 1 ? "" : ","), $1, $2, $3, $4 }
        END { print "]}" }'
else
    echo
    printf 'part\twhat\tresult\tseconds\n%s\n' "$(printf '%s\n' "${rows[@]}")" | awk -F'\t' '
        { printf "%-15s %-7s %8s  %s\n", $1, $3, $4, $2 }'
fi
exit "$status"
