#!/usr/bin/env bash
# Fuzzes each target of fuzz/ for FUZZ_SECONDS (60) seconds, or the targets named.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "fuzz: needs a nightly compiler: rustup toolchain install nightly" >&2
    exit 1
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "fuzz: needs cargo-fuzz: cargo install cargo-fuzz" >&2
    exit 1
fi
if [ $# = 0 ]; then
    mapfile -t targets < <(cargo +nightly fuzz list)
    set -- "${targets[@]}"
fi
for target in "$@"; do
    echo "== $target: ${FUZZ_SECONDS:=60} s"
    cargo +nightly fuzz run "$target" -- -max_total_time="$FUZZ_SECONDS"
done
