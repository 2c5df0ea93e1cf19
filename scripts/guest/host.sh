# shellcheck shell=bash
# shellcheck disable=SC2154
# Part of guest.sh: what the host makes for the parts govern, evening and vmhost.

# With a disk that is slow, as a guest's own disks are as fast as memory.
governed() {
    truncate -s 400M "$run/slow"
    once govern 'SHOW' -device virtio-blk-pci,drive=slow,serial=slow \
        -drive "file=$run/slow,if=none,id=slow,format=raw,throttling.iops-total=400"
}

# A disk whose name is `slow`, with the file system in $run/slow: bytes and requests per second are
# those of `GUEST_DISK`. One with a head: 20 MiB/s of files that lie apart, 120 requests/s.
slow_disk() {
    local bps iops throttled
    read -r bps iops <<<"${GUEST_DISK:-20971520 120}"
    throttled=throttling.bps-total=$bps,throttling.iops-total=$iops
    echo "-device virtio-blk-pci,drive=slow,serial=slow" \
        "-drive file=$run/slow,if=none,id=slow,format=raw,$throttled"
}

# Its files: photographs, and a directory for a database. Their content is no zeroes, which would
# be holes.
photos() {
    local number
    mkdir -p "$run/files/photos" "$run/files/cloud"
    for number in $(seq 96); do
        head -c 3M /dev/urandom >"$run/files/photos/$number.jpg"
    done
    truncate -s 400M "$run/slow"
    mkfs.ext4 -q -F -d "$run/files" "$run/slow"
    rm -r "$run/files"
}

# Two boots of one machine: what is on its disks is all that the second one has.
evening() {
    local job slow
    read -r -a slow <<<"$(slow_disk)"
    rm -f "$run"/[abcd]
    photos
    for job in evening evening-again; do
        boot "$job" "${slow[@]}"
        await '^DONE' || return 1
        gone
        lines '^(WRONG|SHOW)' >&3
        said=$(lines '^SAID ' | tail -1)
        said=${said#SAID }
        grep -q '^DONE 0' "$run/console" || return 1
    done
}

# A key and a certificate: `certificate FOLDER NAME AUTHORITY`, of a server or client by the name
# of FOLDER.
certificate() {
    local kind=client
    [ "${1##*/}" != server ] || kind=server
    mkdir -p "$1"
    cp "$3/ca-cert.pem" "$1/"
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$2" \
        -keyout "$1/$kind-key.pem" -out "$run/csr" 2>/dev/null
    case $kind in
    server) echo "subjectAltName=IP:127.0.0.1" ;;
    client) echo "extendedKeyUsage=clientAuth" ;;
    esac >"$run/ext"
    openssl x509 -req -in "$run/csr" -extfile "$run/ext" -CA "$3/ca-cert.pem" \
        -CAkey "$3/ca-key.pem" -CAcreateserial -days 825 -out "$1/$kind-cert.pem" 2>/dev/null
}

# The certificates of a host and eleven machines in a folder, as docs/serving.md has them made, and
# one of another authority.
certificates() {
    local authority number
    for authority in ours theirs; do
        mkdir -p "$run/$authority"
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -x509 -days 3650 \
            -subj "/CN=$authority" -keyout "$run/$authority/ca-key.pem" \
            -out "$run/$authority/ca-cert.pem" 2>/dev/null
    done
    certificate "$1/server" localhost "$run/ours"
    for number in $(seq 11); do
        certificate "$1/vm$number" "vm$number" "$run/ours"
    done
    certificate "$1/stranger" vm1 "$run/theirs"
    # It believes the server all the same: its own certificate is what is wrong.
    cp "$run/ours/ca-cert.pem" "$1/stranger/"
    rm -r "$run/ours" "$run/theirs"
}
