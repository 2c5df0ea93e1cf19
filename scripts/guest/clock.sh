# shellcheck shell=sh
# Part of init.sh: two hosts of a volume with one limit, while the clock of the day is set forth and
# back, also while etcd stands still. Nothing may notice: leases go by clocks that nobody sets.

# Bytes per second of both together, and of a request.
clock_limit=400000
clock_block=16384

# Seconds of each phase, and of etcd's standstill: more than a lease of 5 s.
clock_phase=10
clock_still=12

# A host with a disk of its own: `clock_host NAME DISK NBD`.
clock_host() {
    mkdir -p "/run/$1"
    cat >"/run/$1/iopace.toml" <<END
socket = "/run/$1/socket"
control = "/run/$1/control"
[cluster]
etcd = ["http://127.0.0.1:2379"]
host = "$1"
hosts = 2
state = "/run/$1/state"
[[device]]
name = "disk"
file = "$2"
direct = true
volume = "pool"
[[export]]
name = "disk"
device = "disk"
group = "/vms"
[group."/vms"]
END
    iopace serve --config "/run/$1/iopace.toml" >"/run/$1/log" 2>&1 &
    eval "server_$1=$!"
    tries=0
    # SLEEP: until the daemon listens.
    until [ -S "/run/$1/socket" ] || [ $((tries += 1)) -gt 300 ]; do sleep 0.1; done
    nbd-client -unix "/run/$1/socket" "/dev/$3" -N disk -nonetlink -n >"/run/$1/nbd" 2>&1 &
    # SLEEP: until the kernel has the size of the device.
    until [ "$(cat "/sys/block/$3/size")" -gt 0 ] || [ $((tries += 1)) -gt 600 ]; do sleep 0.1; done
    if [ "$(cat "/sys/block/$3/size")" = 0 ]; then
        wrong "no export of $1: $(cat "/run/$1/log" "/run/$1/nbd")"
        finish
    fi
}

# Writes that go on: `clock_load NBD SEEK`, each at a place of its own.
clock_load() {
    until [ -e /run/stop ]; do
        dd if=/run/pattern of="/dev/$1" bs="$clock_block" seek="$2" oflag=direct 2>/run/dd-$1-$2 ||
            echo "$1 $2: $(cat "/run/dd-$1-$2")" >>/run/errors
    done
}

# What the disks have written, five times a second, with the time before and after the look.
clock_watch() {
    until [ -e /run/watched ]; do
        read -r before _ </proc/uptime
        read -r _ _ _ _ _ _ a _ </sys/block/vda/stat
        read -r _ _ _ _ _ _ b _ </sys/block/vdb/stat
        read -r after _ </proc/uptime
        echo "$before $after $(((a + b) * 512))"
        # SLEEP: the next look.
        sleep 0.2
    done >/run/samples
}

# Of the limit, in thousandths, on average: `clock_used SINCE UNTIL`, seconds since the boot.
clock_used() {
    awk -v since="$1" -v until="$2" -v limit="$clock_limit" '
        $1 >= since && !begin { begin = $1; first = $3 }
        $1 <= until { end = $1; last = $3 }
        END { printf "%d", 1000 * (last - first) / (end - begin) / limit }' /run/samples
}

# The same, the most in any second that looks can tell apart.
clock_most() {
    awk -v limit="$clock_limit" '{
            from[NR] = $1; to[NR] = $2; sum[NR] = $3
        } END {
            for (i = 1; i <= NR; i++) {
                for (j = i; j <= NR && to[j] - from[i] < 1; j++);
                if (j > NR) break
                rate = (sum[j] - sum[i]) / (to[j] - from[i])
                if (rate > most) most = rate
            }
            printf "%d", 1000 * most / limit
        }' /run/samples
}

now() {
    read -r up _ </proc/uptime
    echo "$up"
}

# A phase with the clock set by so many seconds first: `phase NAME SECONDS`.
clock_phase_of() {
    date -s "@$(($(date +%s) + $2))" >/dev/null || wrong "the clock cannot be set"
    since=$(now)
    # SLEEP: the phase.
    sleep "$clock_phase"
    used=$(clock_used "$since" "$(now)")
    echo "SHOW $1: $used thousandths of the limit, $(date)"
}

clocks() {
    ip link set lo up
    date -s 2026-01-01 >/dev/null
    # Names of hosts are looked up by nobody here.
    us=http://127.0.0.1
    etcd --data-dir /run/etcd --log-level warn --logger zap --listen-client-urls $us:2379 \
        --advertise-client-urls $us:2379 --listen-peer-urls $us:2380 \
        --initial-advertise-peer-urls $us:2380 --initial-cluster default=$us:2380 \
        >/run/etcd.log 2>&1 &
    etcd=$!
    tries=0
    # SLEEP: until etcd answers.
    until wget -q -O - http://127.0.0.1:2379/health 2>/dev/null | grep -q true; do
        [ $((tries += 1)) -le 300 ] || { wrong "no etcd: $(tail -3 /run/etcd.log)"; finish; }
        # SLEEP: the next look.
        sleep 0.2
    done
    clock_host a /dev/vda nbd0
    clock_host b /dev/vdb nbd1
    iopace group set --cluster /vms io.max "pool wbps=$clock_limit" --control /run/a/control ||
        wrong "no limit"
    seq 100000 200000 | head -c 262144 >/run/pattern
    for nbd in nbd0 nbd1; do
        for seek in 0 100 200 300; do clock_load "$nbd" "$seek" & done
    done
    clock_watch &
    watch=$!
    # SLEEP: until both have their parts.
    sleep 5
    clock_phase_of "as it is" 0
    before=$used
    least=$used
    for step in 3600 -7200 40000000 -39996400; do
        clock_phase_of "set by $step s" "$step"
        [ "$used" -ge "$least" ] || least=$used
    done
    [ "$before" -ge 500 ] || wrong "only $before thousandths are used: a limit of less is needed"
    for host in a b; do
        iopace cluster events --control "/run/$host/control" >/run/events ||
            wrong "no events of $host"
        grep 'not reached' /run/events && wrong "$host has lost etcd by setting the clock"
    done
    kill -STOP "$etcd"
    # SLEEP: until the clock is set in the dark.
    sleep 2
    date -s "@$(($(date +%s) - 3600))" >/dev/null
    since=$(now)
    # SLEEP: leases end meanwhile.
    sleep "$clock_still"
    dark=$(clock_used "$(echo "$since" | awk '{ print $1 + 5 }')" "$(now)")
    date -s "@$(($(date +%s) + 7200))" >/dev/null
    kill -CONT "$etcd"
    # SLEEP: the bound for coming back.
    sleep 10
    clock_phase_of "after etcd stood still" 0
    touch /run/watched
    wait "$watch"
    touch /run/stop
    # SLEEP: until the last of the writes are done.
    while pidof dd >/dev/null; do sleep 0.2; done
    for nbd in nbd0 nbd1; do
        for seek in 0 100 200 300; do
            dd if="/dev/$nbd" bs="$clock_block" skip="$seek" count=16 iflag=direct 2>/dev/null |
                cmp -s - /run/pattern || wrong "$nbd, block $seek: another content"
        done
    done
    [ ! -e /run/errors ] || wrong "writes failed: $(head -2 /run/errors)"
    most=$(clock_most)
    # Beside the limit a second has a request of each host and 20 ms of it.
    [ "$most" -le $((1000 + 20 + 2000 * clock_block / clock_limit)) ] ||
        wrong "$most thousandths of the limit in a second"
    for one in "$least" "$used"; do
        # In the dark it would be a twentieth.
        [ "$one" -ge $((before / 2)) ] || wrong "$one thousandths used, $before before"
    done
    [ "$dark" -le 100 ] || wrong "$dark thousandths in the dark, static parts are 50"
    nbd-client -d /dev/nbd0 >/dev/null 2>&1
    nbd-client -d /dev/nbd1 >/dev/null 2>&1
    echo "SAID thousandths of the limit: $most at most in a second, $before used before, $least" \
        "and more with the clock set four times, $dark in the dark, $used afterwards"
}
