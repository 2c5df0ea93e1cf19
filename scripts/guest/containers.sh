# shellcheck shell=sh
# Part of init.sh: what the kernel has set for a cgroup holds through a mount.

# Bytes per second that the kernel is told, and bytes that are written: a minute's worth, as to
# start a program and to end it takes a fifth of a second here.
rate=2097152
bytes=$((60 * rate))

# Hundredths of a second since the start of the guest.
hundredths() {
    read -r up _ </proc/uptime
    echo "${up%.*}${up#*.}"
}

# Buffered writes in a cgroup: `buffered CGROUP FILE`; how long they took is in $took.
buffered() {
    took=$(hundredths)
    # shellcheck disable=SC2016
    sh -c 'echo $$ >"/sys/fs/cgroup/$1/cgroup.procs"
        exec dd if=/dev/zero of="$2" bs=16k count="$3"' \
        writer "$1" "$2" $((bytes / 16384)) 2>/run/dd || wrong "$1: $(cat /run/dd)"
    took=$(($(hundredths) - took))
}

# Seconds and the rate, as they are shown: `rates NAME`.
rates() {
    echo "SHOW $1: $((bytes >> 20)) MiB buffered in" \
        "$((took / 100)).$(printf %02d $((took % 100))) s," \
        "$((took ? bytes * 100 / took : 0)) of $rate bytes/s"
}

# Waits until a group has a line in what holds for it: `holds GROUP TEXT`.
holds() {
    tries=0
    until iopace group get "$1" 2>&1 | tee /run/shown | grep -qE "$2"; do
        if [ $((tries += 1)) -gt 60 ]; then
            wrong "$1: no \"$2\""
            break
        fi
        # SLEEP: until the next look.
        sleep 0.2
    done
    sed 's/^/SHOW /' /run/shown
}

# The bundle of a container that writes into the mount: `bundle NAME ANNOTATIONS`. Whether these
# hold is up to the hook: it keeps the container from starting where they do not.
bundle() {
    for folder in bin mnt proc dev; do
        mkdir -p "/run/$1/rootfs/$folder"
    done
    cp /bin/busybox "/run/$1/rootfs/bin/"
    cat >"/run/$1/config.json" <<END
{"ociVersion": "1.0.2",
 "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "env": ["PATH=/bin"],
  "args": ["/bin/busybox", "dd", "if=/dev/zero", "of=/mnt/$1", "bs=16k",
           "count=$((bytes / 16384))"]},
 "root": {"path": "rootfs"},
 "mounts": [
  {"destination": "/proc", "type": "proc", "source": "proc"},
  {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["mode=755"]},
  {"destination": "/mnt", "type": "bind", "source": "/mnt", "options": ["bind"]}],
 "annotations": {$2},
 "hooks": {"createRuntime": [
  {"path": "/bin/iopace", "args": ["iopace", "container-hook", "--required"]}]},
 "linux": {"cgroupsPath": "/box.slice/$1",
  "namespaces": [{"type": "pid"}, {"type": "mount"}]}}
END
}

# A container of a runtime, whose buffered writes its annotation limits: `annotated RUNTIME`.
annotated() {
    bundle "$1" "\"iopace.io/io.max\": \"wbps=$rate\", \"iopace.io/io.weight\": \"300\""
    took=$(hundredths)
    "$1" run --no-pivot --bundle "/run/$1" "$1" >/run/ran 2>&1 || wrong "$1: $(cat /run/ran)"
    took=$(($(hundredths) - took))
    rates "annotation, container of $1"
    { [ "$took" -ge 5940 ] && [ "$took" -le 8000 ]; } || wrong "$1: limited to $took/100 s"
    holds "/units/box.slice/$1" "io.max .*wbps=$rate .*default of the group"
    bundle "$1" '"iopace.io/io.max": "srv wbps=1M"'
    if "$1" run --no-pivot --bundle "/run/$1" "$1" >/run/ran 2>&1; then
        wrong "$1 starts with a wrong annotation"
    fi
    # runc shows what the hook has said.
    [ "$1" != runc ] || grep -q "annotation iopace.io/io.max: 'srv' is not key=value" /run/ran ||
        wrong "$1: $(cat /run/ran)"
    rm -f "/mnt/$1"
}

# The same lines that systemd-run -p IOWriteBandwidthMax=, docker run --device-write-bps and runc
# write: a slice with a service in it, whose writes the kernel limits.
containers() {
    cgroups
    echo +memory >/sys/fs/cgroup/cgroup.subtree_control || wrong "no memory controller"
    mkdir /run/below /sys/fs/cgroup/box.slice
    disk /run/below
    echo '+io +memory' >/sys/fs/cgroup/box.slice/cgroup.subtree_control || wrong "no io in a slice"
    web=/sys/fs/cgroup/box.slice/web.service
    mkdir "$web"
    number=$(cat /sys/block/vda/dev)
    echo "$number wbps=$rate" >"$web/io.max" || wrong "no io.max in the kernel"
    iopace mount /run/below /mnt --rule map=cgroup:/units || wrong "no mount"
    buffered box.slice/web.service /run/below/beside
    rates "without iopace"
    without=$took
    sync
    buffered box.slice/web.service /mnt/through
    rates "through iopace"
    { [ "$took" -ge 5940 ] && [ "$took" -le 6060 ]; } || wrong "through iopace in $took/100 s"
    through=$took
    holds /units/box.slice/web.service "io.max .*wbps=$rate .*cgroup of the kernel"
    # A change in the kernel, and one of the slice above.
    echo "$number wbps=max" >"$web/io.max"
    echo "$number wbps=$((2 * rate))" >/sys/fs/cgroup/box.slice/io.max
    holds /units/box.slice "io.max .*wbps=$((2 * rate)) .*cgroup of the kernel"
    holds /units/box.slice/web.service "io.max .*max .*built in"
    # A setting of iopace comes first.
    iopace group set /units/box.slice io.max "$number wbps=max" || wrong "not set"
    holds /units/box.slice "io.max .*max .*line of the device"
    # What runtimes load when they begin anew, in an environment of their own.
    ln -s /lib64 /lib
    annotated runc
    by_runc=$took
    annotated crun
    iopace unmount /mnt || wrong "not unmounted"
    echo "SAID $((bytes >> 20)) MiB buffered under io.max wbps=$rate: in $((through / 100)).$(
        printf %02d $((through % 100))) s through iopace, in $((without / 100)).$(
        printf %02d $((without % 100))) s past it; by an annotation, start included: runc $((
        by_runc / 100)).$(printf %02d $((by_runc % 100))) s, crun $((took / 100)).$(
        printf %02d $((took % 100))) s"
}
