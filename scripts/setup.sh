#!/usr/bin/env bash
# Installs what the tests and benchmarks talk to: NBD clients, fio, FUSE, a C linker, the programs
# of the field tests, a browser for the dashboard, valgrind to count instructions, and Rust's target
# for policies. On Debian and Ubuntu, as root or where sudo asks nothing; elsewhere it says what is
# missing and goes on, and what needs it is skipped aloud later. Quick when all is there. Changes
# nothing else.
set -euo pipefail

# What is looked for, and the package it is in.
wanted=(
    "cc:gcc"
    "fio:fio"
    "nbdinfo:libnbd-bin"
    "nbdcopy:libnbd-bin"
    "nbdsh:libnbd-bin"
    "nbdkit:nbdkit"
    "qemu-img:qemu-utils"
    "qemu-io:qemu-utils"
    "fusermount3:fuse3"
    "bindfs:bindfs"
    "getfattr:attr"
    "getfacl:acl"
    "mkfs.ext4:e2fsprogs"
    "losetup:mount"
    "cvs:cvs"
    "git:git"
    "postmark:postmark"
    "pv:pv"
    "rsync:rsync"
    "strace:strace"
    "valgrind:valgrind"
    "promtool:prometheus"
    "chromium:chromium"
    "chromedriver:chromium-driver"
)

packages_missing() {
    local entry
    for entry in "${wanted[@]}"; do
        command -v "${entry%%:*}" >/dev/null || echo "${entry##*:}"
    done
    # For passthrough_hp, which mounts are measured beside.
    pkg-config --exists fuse3 2>/dev/null || echo libfuse3-dev
    # nbdsh comes with libnbd-bin, the module that it runs on does not. The package is for the
    # system's Python; one that somebody put before it in PATH does not have it.
    if ! PATH=/usr/bin:/bin:$PATH python3 -c 'import nbd' >/dev/null 2>&1; then
        echo python3-libnbd
    fi
    # It has the browser driven.
    if ! PATH=/usr/bin:/bin:$PATH python3 -c 'import selenium' >/dev/null 2>&1; then
        echo python3-selenium
    fi
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

if ! command -v cargo >/dev/null; then
    echo "setup: no cargo; install Rust 1.95 or newer (https://rustup.rs)" >&2
    exit 1
fi

mapfile -t missing < <(packages_missing | sort -u)
if [ "${#missing[@]}" -gt 0 ]; then
    echo "setup: missing: ${missing[*]}"
    if command -v apt-get >/dev/null && as_root true 2>/dev/null; then
        export DEBIAN_FRONTEND=noninteractive
        as_root apt-get -qq update || echo "setup: apt-get update failed, trying with what is known"
        as_root apt-get -qq install --yes --no-install-recommends "${missing[@]}" >/dev/null ||
            echo "setup: apt-get install failed"
    else
        echo "setup: needs apt-get, and root or a sudo that asks nothing, to install them"
    fi
    mapfile -t missing < <(packages_missing | sort -u)
fi

# Loadable policies are compiled to WebAssembly.
wasm=wasm32-unknown-unknown
if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$wasm" ]; then
    if ! command -v rustup >/dev/null || ! rustup -q target add "$wasm" >/dev/null 2>&1; then
        missing+=("$wasm, a target of Rust (rustup target add $wasm; libstd-rust-dev-wasm32)")
    fi
fi

if [ "${#missing[@]}" -gt 0 ]; then
    echo "setup: still missing: ${missing[*]}; what needs them will be skipped"
else
    echo "setup: all there"
fi
