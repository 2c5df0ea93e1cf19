# shellcheck shell=sh
# Part of init.sh: a host of virtual machines. QEMU's own client has ten disks, and one more, over
# TLS with a certificate for each machine, while the daemon is started anew and killed.

# Blocks of 128 KiB that each machine has written at the end.
blocks=36

# Blocks of 32 KiB of the limited one: a round lasts for four minutes, unless the limit is lifted.
limited_blocks=512

# The words by which a client names its disk: `options NUMBER`.
options() {
    echo "driver=nbd,server.type=inet,server.host=127.0.0.1,server.port=10809,export=vm$1,\
tls-creds=tls,reconnect-delay=120,open-timeout=120"
}

# QEMU's client of a machine, which comes again when the daemon is gone: `client NUMBER [WORDS]`.
client() {
    one=$1
    shift
    qemu-io --object "tls-creds-x509,id=tls,endpoint=client,dir=/pki/vm$one" \
        --image-opts "$(options "$one")" "$@"
}

# Lines for it: `lines WHAT NUMBER ROUND FIRST SIZE COUNT`, requests of SIZE KiB from that block on,
# each round with other content: `write` one after the other with `$think` ms between them,
# `aio_write` as many at once as QEMU will.
lines() {
    awk -v what="$1" -v n="$2" -v round="$3" -v first="$4" -v size="$5" -v count="$6" \
        -v think="$think" 'BEGIN {
        for (i = first; i < first + count; i++) {
            pattern = (n * 31 + round * 7 + i) % 255 + 1
            printf "%s -P %d %dk %dk\n", what, pattern, i * size, size
            if (what == "write" && i % 8 == 7) print "flush"
            if (what == "write") print "sleep " think
        }
        if (what == "aio_write") print "aio_flush"
    }'
}

# A machine that writes its blocks over and over, each round to its end: `machine_of WHAT NUMBER
# SIZE COUNT`.
machine_of() {
    round=0
    until [ -e /run/stop ]; do
        round=$((round + 1))
        lines "$1" "$2" "$round" 0 "$3" "$4" >"/run/lines-$2"
        client "$2" <"/run/lines-$2" >>"/run/out-$2" 2>&1
        echo "$round" >"/run/round-$2"
    done
}

# All of a machine is as its last round has left it: `same NUMBER ROUND FIRST SIZE COUNT`.
same() {
    grep -q failed "/run/out-$1" && wrong "vm$1: $(grep -m1 failed "/run/out-$1")"
    lines read "$@" >/run/reads
    client "$1" </run/reads >/run/read 2>&1 || wrong "vm$1 cannot be read: $(tail -3 /run/read)"
    grep -q failed /run/read && wrong "vm$1: $(grep -m1 failed /run/read)"
    [ "$(grep -c 'read [0-9]*/[0-9]* bytes' /run/read)" = "$5" ] ||
        wrong "vm$1: $(tail -3 /run/read)"
    verified=$((verified + $4 * $5))
}

# Starts the daemon, as its unit would.
host() {
    iopace serve --config /vms/iopace.toml >>/run/log 2>&1 &
    server=$!
    tries=0
    until iopace export list >/dev/null 2>&1; do
        if [ $((tries += 1)) -gt 600 ]; then
            wrong "no daemon: $(tail -5 /run/log)"
            finish
        fi
        # SLEEP: until the daemon answers.
        sleep 0.1
    done
}

# Writes that QEMU was told are done.
done_count() {
    cat /run/out-* 2>/dev/null | grep -c 'wrote '
}

# Waits until so many more are done.
progress() {
    goal=$(($(done_count) + $1))
    tries=0
    while [ "$(done_count)" -lt "$goal" ]; do
        if [ $((tries += 1)) -gt 600 ]; then
            wrong "machines stand still: $(done_count) of $goal writes"
            return
        fi
        # SLEEP: until more are done.
        sleep 0.2
    done
}

# Bytes that the limited machine has written, by the daemon's account of it.
limited_bytes() {
    iopace group get /clients/vm3 io.stat | sed -n 's/.*wbytes=\([0-9]*\).*/\1/p' |
        awk '{ sum += $1 } END { print sum + 0 }'
}

# The limited machine has 64 KiB/s from when it writes, 5 % more at most (three requests within the
# time that is measured), and 10 % less where it waits for the processor: `measured WORD`. QEMU may
# wait for 16 s before it looks for a daemon again.
measured() {
    goal=$(($(limited_bytes) + 65536))
    tries=0
    until [ "$(limited_bytes)" -ge "$goal" ]; do
        if [ $((tries += 1)) -gt 120 ]; then
            wrong "$1: vm3 does not write"
            return
        fi
        # SLEEP: until the next look.
        sleep 0.5
    done
    # Asking takes seconds here: the time is looked at after each answer.
    before=$(limited_bytes)
    begun=$(hundredths)
    # SLEEP: for as long as is measured.
    sleep 20
    after=$(limited_bytes)
    took=$(($(hundredths) - begun))
    rate=$(((after - before) * 100 / took))
    echo "SHOW $1: vm3 writes $rate bytes/s, may write 65536"
    { [ "$rate" -ge 58982 ] && [ "$rate" -le 68812 ]; } || wrong "$1: $rate bytes/s of 65536"
}

configuration() {
    echo 'listen = ["127.0.0.1:10809"]'
    echo 'tls-certificates = "/pki/server"'
    echo 'tls-verify-peer = true'
    for number in 1 2 3 4 5 6 7 8 9 10; do
        truncate -s 64M "/vms/vm$number.img"
        printf '[[device]]\nfile = "/vms/vm%s.img"\nraw = true\n' "$number"
    done
    printf '[[rule]]\nmap = "certificate"\ngroup = "/clients"\n[group."/clients"]\n'
}

# An export that is added while machines write, and made larger: its client writes behind the former
# end.
added() {
    truncate -s 64M /vms/vm11.img
    iopace export add vm11 --path /vms/vm11.img --raw --save || wrong "vm11 is not added"
    iopace export resize vm11 96M || wrong "vm11 is not resized"
    client 11 -c length 2>&1 | grep -q '96 MiB' || wrong "vm11: $(client 11 -c length 2>&1)"
    lines aio_write 11 1 640 128 "$blocks" >/run/lines-11
    client 11 </run/lines-11 >/run/out-11 2>&1 || wrong "vm11 does not write"
}

# A certificate that is not signed by the same authority, and none at all.
strangers() {
    qemu-io --object tls-creds-x509,id=tls,endpoint=client,dir=/pki/stranger,sanity-check=no \
        --image-opts "$(options 1 | sed 's/reconnect.*/open-timeout=0/')" -c length \
        >/run/stranger 2>&1 &&
        wrong "a stranger is let in"
    qemu-io --image-opts "$(options 1 | sed 's/tls-creds.*/open-timeout=0/')" -c length \
        >>/run/stranger 2>&1 && wrong "somebody without TLS is let in"
    sed 's/^/SHOW refused: /' /run/stranger
}

# Restarts and kills of the daemon, each when machines have gone on after the one before.
upgrades() {
    for event in restart kill restart kill restart; do
        progress 20
        case $event in
        restart) kill "$server" ;;
        kill) kill -9 "$server" ;;
        esac
        wait "$server"
        status=$?
        [ "$event" = kill ] || [ "$status" = 0 ] || wrong "the daemon ended with $status"
        host
        echo "SHOW $event after $(done_count) writes"
    done
    progress 20
}

vmhost() {
    # Ten that encrypt without a pause leave an emulated processor nothing for anybody else.
    verified=0 machines='' think=2000
    ip link set lo up
    mkdir /vms
    disk /vms
    configuration >/vms/iopace.toml
    iopace config check /vms/iopace.toml || wrong "the configuration"
    host
    strangers
    for number in 1 2 4 5 6 7 8 9 10; do
        machine_of write "$number" 128 "$blocks" &
        machines="$machines $!"
    done
    progress 9
    # The group is there once its first client has come.
    client 3 -c length >/run/length 2>&1 || wrong "vm3: $(cat /run/length)"
    iopace group list --connections | sed 's/^/SHOW /'
    iopace group set /clients/vm3 io.max 'vm3 wbps=64k' --save || wrong "vm3 is not limited"
    machine_of aio_write 3 32 "$limited_blocks" &
    machines="$machines $!"
    measured "limited"
    added
    upgrades
    measured "limited, after five starts"
    touch /run/stop
    iopace group set /clients/vm3 io.max 'vm3 wbps=max' || wrong "the limit is not lifted"
    # shellcheck disable=SC2086
    wait $machines
    for number in 1 2 4 5 6 7 8 9 10; do
        same "$number" "$(cat "/run/round-$number")" 0 128 "$blocks"
    done
    same 3 "$(cat /run/round-3)" 0 32 "$limited_blocks"
    same 11 1 640 128 "$blocks"
    kill "$server"
    wait "$server" || wrong "the daemon ended with $?"
    echo "SAID eleven disks over TLS, one added and resized meanwhile, one limited to 64 KiB/s" \
        "($rate bytes/s); daemon restarted 3 times and killed twice;" \
        "$((verified / 1024)) MiB verified"
}
