# shellcheck shell=sh
# Part of init.sh: cgroups that give way to others, by the kernel alone.

# Seconds that are measured, and those in which the controller finds its rate.
span=20
warm=40

# Sixteen that read as fast as they may, in a cgroup, with a command in front: `bulk [WORDS]`.
bulk() {
    number=0
    while [ $((number += 1)) -le 16 ]; do
        # shellcheck disable=SC2016
        sh -c 'echo $$ >/sys/fs/cgroup/box.slice/bulk.service/cgroup.procs
            while true; do "$@"; done' reader "$@" dd if="/dev/$slow" of=/dev/null bs=16k \
            skip=$((number * 900)) count=900 iflag=direct 2>/dev/null &
    done
}

# The total of the time in which some task of a cgroup waited for disks, in µs.
waited() {
    sed -n 's/^some .*total=//p' /sys/fs/cgroup/box.slice/web.service/io.pressure
}

# What the other cgroup has read, in bytes.
bulked() {
    sed -n 's/.*rbytes=\([0-9]*\).*/\1/p' /sys/fs/cgroup/box.slice/bulk.service/io.stat |
        awk '{ sum += $1 } END { print sum + 0 }'
}

# One who reads a block, thinks for a twentieth of a second, and so on: `web WORD`. Sets $reads,
# $percent and $moved.
web() {
    from=$(waited)
    before=$(bulked)
    # shellcheck disable=SC2016
    reads=$(sh -c 'echo $$ >/sys/fs/cgroup/box.slice/web.service/cgroup.procs
        reads=0
        read -r up _ </proc/uptime
        end=$((${up%.*} + $2))
        while [ "${up%.*}" -lt "$end" ]; do
            dd if="/dev/$1" of=/dev/null bs=4k skip=$((reads * 7919 % 100000)) count=1 \
                iflag=direct 2>/dev/null
            reads=$((reads + 1))
            # SLEEP: it thinks.
            sleep 0.05
            read -r up _ </proc/uptime
        done
        echo $reads' web "$slow" "$span")
    percent=$((($(waited) - from) / (span * 10000)))
    moved=$((($(bulked) - before) / span / 1024))
    echo "SHOW $1: web $((reads / span)).$((reads * 10 / span % 10)) reads/s, waits $percent %," \
        "bulk $moved KiB/s"
}

# Ends those of the bulk.
quiet() {
    echo 1 >/sys/fs/cgroup/box.slice/bulk.service/cgroup.kill
    # SLEEP: until all are gone.
    until [ ! -s /sys/fs/cgroup/box.slice/bulk.service/cgroup.procs ]; do sleep 0.1; done
}

govern() {
    cgroups
    slow=$(grep -lx slow /sys/block/*/serial | cut -d/ -f4)
    mkdir /sys/fs/cgroup/box.slice
    echo +io >/sys/fs/cgroup/box.slice/cgroup.subtree_control || wrong "no io in a slice"
    mkdir /sys/fs/cgroup/box.slice/web.service /sys/fs/cgroup/box.slice/bulk.service
    number=$(cat "/sys/block/$slow/dev")
    had="$number rbps=900000000 wbps=max riops=max wiops=max"
    echo "$had" >/sys/fs/cgroup/box.slice/bulk.service/io.max || wrong "no io.max in the kernel"
    web alone
    bulk
    web beside
    without=$reads
    waits=$percent
    quiet
    bulk ionice -c3
    web "beside, ionice -c3"
    quiet
    bulk
    iopace govern bulk.service --keep-pressure 10 >/run/govern 2>&1 &
    governor=$!
    # SLEEP: until the controller has found its rate.
    sleep "$warm"
    sed 's/^/SHOW io.max /' /sys/fs/cgroup/box.slice/bulk.service/io.max
    web governed
    [ "$reads" -gt "$without" ] || wrong "web: $reads reads governed, $without beside"
    [ $((percent * 3)) -lt $((waits * 2)) ] || wrong "web waits $percent % governed, $waits beside"
    # Killed, it leaves what it had for the next.
    kill -9 "$governor"
    wait "$governor" 2>/dev/null
    iopace govern --release bulk.service || wrong "not released"
    [ "$(cat /sys/fs/cgroup/box.slice/bulk.service/io.max)" = "$had" ] ||
        wrong "io.max: $(cat /sys/fs/cgroup/box.slice/bulk.service/io.max)"
    quiet
    echo "SAID web waits $percent % in place of $waits, and reads $reads in place of $without"
}
