#!/usr/bin/env bash
# A guest of QEMU's emulation (no KVM) with Debian's 6.12 cloud kernel, for what needs a kernel of
# its own: `guest.sh [all|logwrites|reset|boot]`. Nothing is installed: packages are fetched by
# apt-get and unpacked below the target directory. Skipped, aloud, where that cannot be done.
#
#   logwrites  ext4 and XFS on an export over nbd.ko, dm-log-writes below iopace's disk: at every
#              mark the log is replayed, the file system is checked and files are compared
#   reset      ext4 the same way; QEMU is killed while files are written, and those that were
#              synced are compared after another boot
#   boot       to the first line of init, to see how long that takes
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
cache=$target/guest
suite=bookworm
# Longest time of one guest, in seconds: emulation on a busy machine is slow.
most=${GUEST_SECONDS:-900}

skip() {
    echo "skipped: $1"
    exit 0
}
for tool in qemu-system-x86_64 apt-get apt-cache dpkg-deb dmsetup mkfs.ext4 xz; do
    command -v "$tool" >/dev/null || skip "$tool is missing (qemu-system-x86, dmsetup)"
done
mkdir -p "$cache/debs" "$cache/run"
run=$(mktemp -d "$cache/run/XXXXXX")
guest=
end() {
    [ -z "$guest" ] || kill -9 "$guest" 2>/dev/null || true
    rm -rf "$run"
}
trap end EXIT
trap 'exit 130' INT TERM

# The newest 6.12 of the cloud, and what the host need not have.
fetch() {
    if [ -e "$cache/tree/.whole" ]; then return; fi
    local kernel
    kernel=$(apt-cache search --names-only '^linux-image-6\.12.*-cloud-amd64$' |
        awk '$1 ~ /[0-9]\+deb/ { print $1 }' | sort -V | tail -1)
    [ -n "$kernel" ] || skip "apt-get knows no 6.12 cloud kernel ($suite-security)"
    rm -rf "$cache/tree"
    if ! ls "$cache"/debs/linux-image-* "$cache"/debs/nbd-client* >/dev/null 2>&1; then
        (cd "$cache/debs" && apt-get -qq download "$kernel" busybox-static nbd-client xfsprogs \
            libinih1 liburcu8 libnl-3-200 libnl-genl-3-200 2>/dev/null) ||
            skip "packages cannot be fetched: apt-get update"
    fi
    for deb in "$cache"/debs/*.deb; do
        dpkg-deb -x "$deb" "$cache/tree"
    done
    touch "$cache/tree/.whole"
}

# Copies programs with their libraries.
put() {
    local program library
    for program in "$@"; do
        cp -L "$program" "$run/tree/bin/"
        LD_LIBRARY_PATH=$cache/tree/usr/lib/x86_64-linux-gnu:$cache/tree/lib/x86_64-linux-gnu \
            ldd "$program" | grep -oE '/[^ ]+' | while read -r library; do
            cp -Ln "$library" "$run/tree/lib64/" 2>/dev/null || true
        done
    done
}

initramfs() {
    local root=$run/tree module modules
    cargo build -q -p iopace -p iopace-powercut
    mkdir -p "$root"/{bin,lib64,modules,dev,proc,sys,tmp,mnt,run}
    cp "$cache/tree/bin/busybox" "$root/bin/"
    put "$target/debug/iopace" "$target/debug/iopace-powercut" \
        "$cache/tree/sbin/nbd-client" "$cache/tree/sbin/mkfs.xfs" \
        "$cache/tree/sbin/xfs_repair" "$(command -v mkfs.ext4)" "$(command -v e2fsck)" \
        "$(command -v dmsetup)"
    # coreutils' sync, which syncs one file or directory.
    cp -L "$(command -v sync)" "$root/bin/fsync"
    strip "$root"/bin/iopace* 2>/dev/null || true
    modules=$(echo "$cache"/tree/lib/modules/*)
    for module in virtio_blk libcrc32c xfs nbd dm-mod dm-bufio dm-snapshot dm-log-writes; do
        find "$modules" -name "$module.ko.xz" -exec cp {} "$root/modules/" \;
    done
    xz -d "$root"/modules/*.xz
    cp scripts/guest/init.sh "$root/init"
    chmod +x "$root/init"
    (cd "$root" && find . | "$cache/tree/bin/busybox" cpio -o -H newc 2>/dev/null) >"$run/initramfs"
    rm -rf "$root"
}

# Boots a guest for a job: `boot JOB`; its console is in $run/console.
boot() {
    local disks=() disk
    for disk in a b c d; do
        [ -e "$run/$disk" ] || truncate -s 400M "$run/$disk"
        disks+=(-drive "file=$run/$disk,if=virtio,format=raw,cache=writeback")
    done
    : >"$run/console"
    qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 1536 -nodefaults -no-reboot \
        -display none -serial "file:$run/console" -kernel "$cache"/tree/boot/vmlinuz-* \
        -initrd "$run/initramfs" "${disks[@]}" \
        -append "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check job=$1" </dev/null &
    guest=$!
}

# Waits until the console has a line, or the guest has ended: `await PATTERN`.
await() {
    local waited=0
    until grep -qE "$1" "$run/console"; do
        if ! kill -0 "$guest" 2>/dev/null || [ "$waited" -ge $((most * 5)) ]; then
            grep -qE "$1" "$run/console" && return
            echo "the guest has not said \"$1\":"
            tail -40 "$run/console"
            return 1
        fi
        # SLEEP: between two looks at the console.
        sleep 0.2
        waited=$((waited + 1))
    done
}

gone() {
    kill -9 "$guest" 2>/dev/null || true
    wait "$guest" 2>/dev/null || true
    guest=
}

logwrites() {
    local kind
    for kind in ext4 xfs; do
        rm -f "$run"/[abcd]
        boot "logwrites-$kind"
        await '^DONE' || return 1
        gone
        grep -E '^(DONE|WRONG|mark)' "$run/console"
        grep -q '^DONE 0' "$run/console" || return 1
    done
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
        echo "killed after $synced files: $(grep -E '^(DONE|WRONG)' "$run/console")"
        grep -q '^DONE 0' "$run/console" || return 1
    done
}

fetch
initramfs
case $what in
boot)
    boot boot
    await '^DONE'
    ;;
logwrites | reset) "$what" ;;
all) logwrites && reset ;;
*)
    echo "guest.sh [all|logwrites|reset|boot]" >&2
    exit 2
    ;;
esac
