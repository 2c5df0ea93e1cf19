# shellcheck shell=sh
# Parts of init.sh: cgroups of version 2, which the guest has and nothing else.

cgroups() {
    mount -t cgroup2 none /sys/fs/cgroup || wrong "no cgroup v2"
    echo +io >/sys/fs/cgroup/cgroup.subtree_control || wrong "no io controller"
}

# An ext4 file system on the first disk, at a directory.
disk() {
    mkfs.ext4 -q /dev/vda || wrong "mkfs.ext4"
    mount -t ext4 /dev/vda "$1" || wrong "the disk is not mounted at $1"
}

# The unit tests that ask the kernel: for callers, cgroups, sockets, io_uring.
# Not all of the daemon's: emulation is some thirty times slower.
tests() {
    cgroups
    disk /tmp
    mkdir -p /dev/shm
    ip link set lo up
    iopace-tests --nocapture --test-threads=2 fuse::who process:: control::peer \
        fuse::mounting::table runtime_files io::uring 2>&1 | tee /run/tests
    result=$(grep '^test result' /run/tests)
    case $result in
    "test result: ok"*) ;;
    *) wrong "unit tests of the daemon: $(grep -oE 'test .* FAILED$' /run/tests)" ;;
    esac
    grep -A9 ' panicked at ' /run/tests | sed 's/^/SHOW /'
    # Output of tests beside each other may begin anywhere in a line.
    skipped=$(grep -cE 'skipped( in part)?: ' /run/tests)
    passed=$(echo "$result" | grep -oE '[0-9]+ passed')
    # This one is why the guest is there: no hierarchy of version 1 is mounted.
    grep -q 'needs root and a cgroup hierarchy\|no process can be put into' /run/tests &&
        wrong "cgroup v2 cannot be written to"
    echo "SAID ${passed:-none passed}, of them $skipped skipped, with cgroup v2 alone"
}

# A process in a cgroup that writes to a file of the mount, over and over.
writer() {
    # shellcheck disable=SC2016
    sh -c 'echo $$ >"/sys/fs/cgroup/$1/cgroup.procs"
        while dd if=/dev/zero of="/mnt/$2" bs=64k count=16 conv=notrunc,fsync; do :; done' \
        writer "$1" "$2" 2>/dev/null &
    writers="$writers $!"
}

# Waits until a group has written: `written GROUP`.
written() {
    tries=0
    until iopace group get "$1" io.stat 2>/dev/null | grep -qE 'wbytes=[1-9]'; do
        if [ $((tries += 1)) -gt 300 ]; then
            wrong "$1 has written nothing"
            iopace group list
            return
        fi
        # SLEEP: until the next look.
        sleep 0.2
    done
}

# Shows what a command prints once all names are in it: `shows NAMES COMMAND...`. A name may come a
# moment later: a process in a group, between two of its kind.
shows() {
    names=$1
    shift
    tries=0
    while true; do
        missing=
        "$@" >/run/shown 2>&1 || missing="status $?"
        for name in $names; do
            grep -qF "$name" /run/shown || missing="$missing $name"
        done
        if [ -z "$missing" ] || [ $((tries += 1)) -gt 60 ]; then break; fi
        # SLEEP: until the next look.
        sleep 0.2
    done
    sed "s/^/SHOW /" /run/shown
    [ -z "$missing" ] || wrong "$*: missing: $missing"
}

groups() {
    cgroups
    mkdir /run/below
    disk /run/below
    for cgroup in gold.service bulk.service db.service user user/db.service; do
        mkdir "/sys/fs/cgroup/$cgroup"
    done
    # Whoever has this place may call a cgroup in it db.service, and does not pay as that.
    chown 4242 /sys/fs/cgroup/user
    iopace mount /run/below /mnt --sched fair \
        --rule cgroup=db.service:/db --rule map=cgroup:/units || wrong "no mount"
    writers=
    writer gold.service gold
    writer bulk.service bulk
    writer db.service db
    writer user/db.service user
    both="/units/gold.service /units/bulk.service"
    for group in $both /db /units/user/db.service; do written "$group"; done
    echo 400 >/sys/fs/cgroup/gold.service/io.weight || wrong "no io.weight in the kernel"
    iopace group set /units/gold.service io.weight 400 || wrong "no weight"
    iopace group set /units/bulk.service io.weight 100 || wrong "no weight"
    shows "$both /db /units/user/db.service" iopace group list
    shows "$both" iopace group stat /units --format json
    shows "$both" iopace group list --processes
    shows "$both" iopace top --batch --count 1 --flat
    # shellcheck disable=SC2086
    kill $writers
    wait
    tries=0
    # SLEEP: until the last dd of each has ended as well.
    while [ $((tries += 1)) -lt 300 ] &&
        [ -n "$(cat /sys/fs/cgroup/*/cgroup.procs /sys/fs/cgroup/*/*/cgroup.procs)" ]; do
        sleep 0.2
    done
    iopace unmount /mnt || wrong "not unmounted"
    echo "SAID four groups from cgroup v2: two mapped, one by a rule, one that a user named so"
}
