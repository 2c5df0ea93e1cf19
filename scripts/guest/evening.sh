#!/bin/bash
# An evening of a NAS: a database of its users beside restic, on a slow disk, as the manual tells a
# new user to go about it. Runs at each boot of a Debian with systemd; the second time it looks what
# has lasted. Says `DONE` with a count of what was wrong.
export LC_ALL=C RESTIC_PASSWORD=evening HOME=/var/lib/evening
stage=/var/lib/evening
wrong=0

wrong() {
    wrong=$((wrong + 1))
    echo "WRONG: $*"
}

finish() {
    echo "DONE $wrong"
    sync
    # SLEEP: until the host has seen it.
    sleep 100
}

# Does it, or says what was wrong, with its output.
must() {
    local out
    out=$("$@" 2>&1) || wrong "$* failed: $(echo "$out" | tail -5)"
}

# Commits for 30 s, alone or beside a backup that begins anew: `commits WHAT [beside]`.
commits() {
    local result moved
    sync
    echo 3 >/proc/sys/vm/drop_caches
    if [ "${2:-}" = beside ]; then
        rm -rf /var/backups/restic
        restic init -q -r /var/backups/restic || wrong "no repository"
        systemctl start --no-block backup.service
        # SLEEP: until it reads the disk.
        sleep 8
        [ "$(systemctl is-active backup.service)" = activating ] || wrong "no backup runs: $1"
    fi
    moved=$(awk '{ print $3 }' /sys/block/vdb/stat)
    result=$(/opt/commits.py /srv/cloud.db 30 2>&1) || wrong "commits: $result"
    moved=$((($(awk '{ print $3 }' /sys/block/vdb/stat) - moved) / 2 / 30))
    if [ "${2:-}" = beside ]; then
        [ "$(systemctl is-active backup.service)" = activating ] || wrong "the backup ended: $1"
        systemctl stop backup.service
    fi
    echo "SHOW $1: $result; the disk read $moved KiB/s"
    rate=${result%% *}
}

# Whether a rate is at least so many hundredths of another one.
at_least() {
    awk "BEGIN { exit !($1 * 100 >= $2 * $3) }"
}

first() {
    mkdir -p "$stage" /srv
    mkfs.ext4 -q /dev/vdb || wrong "mkfs"
    echo "/dev/vdb /srv ext4 defaults 0 2" >>/etc/fstab
    systemctl daemon-reload
    mount /srv || wrong "no /srv"
    mkdir /srv/photos
    for number in $(seq 40); do
        head -c 4M /dev/urandom >"/srv/photos/$number.jpg"
    done
    cat >/etc/systemd/system/backup.service <<'UNIT'
[Service]
Type=oneshot
Environment=RESTIC_PASSWORD=evening HOME=/var/lib/evening
ExecStart=/usr/bin/restic backup -q -r /var/backups/restic /srv/photos
UNIT
    systemctl daemon-reload
    commits "the database alone"
    echo "$rate" >"$stage/alone"
    commits "beside restic" beside
    echo "$rate" >"$stage/beside"
    mkdir -p /etc/systemd/system/backup.service.d
    printf '[Service]\nIOSchedulingClass=idle\nIOWeight=1\n' \
        >/etc/systemd/system/backup.service.d/ionice.conf
    systemctl daemon-reload
    for scheduler in mq-deadline bfq; do
        [ "$scheduler" != bfq ] || modprobe bfq || wrong "no bfq"
        echo "$scheduler" >/sys/block/vdb/queue/scheduler || wrong "no $scheduler"
        commits "beside restic, class idle, $scheduler" beside
    done
    rm -r /etc/systemd/system/backup.service.d
    echo none >/sys/block/vdb/queue/scheduler

    must dpkg -i /opt/iopace.deb
    must iopace nice --install backup.service
    commits "beside restic, iopace nice --install" beside
    must iopace setup /srv --yes
    grep -q ' /srv fuse.iopace' /proc/self/mounts || wrong "/srv is not mounted"
    commits "the same, and iopace setup /srv" beside
    echo "$rate" >"$stage/nice"
    at_least "$rate" 60 "$(cat "$stage/alone")" || wrong "commits: $rate of $(cat "$stage/alone")"
    echo "REBOOT $wrong"
    systemctl reboot
    # SLEEP: until it is off.
    sleep 100
}

second() {
    local failed
    failed=$(systemctl --failed --plain --no-legend)
    [ -z "$failed" ] || wrong "failed at boot: $failed"
    grep -q ' /srv fuse.iopace' /proc/self/mounts || wrong "/srv is not mounted after a reboot"
    commits "after a reboot, the database alone"
    commits "after a reboot, beside restic" beside
    at_least "$rate" 60 "$(cat "$stage/alone")" || wrong "commits: $rate of $(cat "$stage/alone")"
    must iopace nice --remove backup.service
    must iopace setup /srv --undo --yes
    ! grep -q ' /srv fuse.iopace' /proc/self/mounts || wrong "/srv is mounted after --undo"
    must dpkg --purge iopace
    ls /etc/systemd/system/backup.service.d >/dev/null 2>&1 && wrong "a drop-in is left"
    local left
    left=$(find /etc /usr /var/lib -xdev -iname '*iopace*' ! -path '/var/lib/dpkg/*')
    [ -z "$left" ] || wrong "left: $left"
    echo "SAID commits/s alone $(cat "$stage/alone"), beside restic $(cat "$stage/beside")," \
        "with nice and setup $(cat "$stage/nice"), after a reboot $rate"
    finish
}

if [ -e "$stage/nice" ]; then second; else first; fi
finish
