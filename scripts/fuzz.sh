#!/usr/bin/env bash
# Fuzzes each target of fuzz/, or those named, for FUZZ_SECONDS (60) each, with libFuzzer and the
# stable compiler: edge counters come from LLVM's own pass (scripts/fuzz_rustc.sh). Inputs that
# reach something new are kept in fuzz/corpus.found/, which begins with fuzz/corpus.tar.xz, and
# used again; what fails is left in fuzz/artifacts/. The last line of each target is how often it
# ran, added to fuzz/corpus.found/executions.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

triple=$(rustc -vV | sed -n 's/^host: //p')
export RUSTFLAGS="--cfg fuzzing" RUSTC_WRAPPER=$PWD/../scripts/fuzz_rustc.sh

mapfile -t known < <(sed -n 's|^path = "fuzz_targets/\(.*\)\.rs"$|\1|p' Cargo.toml)
[ $# -gt 0 ] || set -- "${known[@]}"
for target in "$@"; do
    if [[ " ${known[*]} " != *" $target "* ]]; then
        echo "fuzz: no target '$target': ${known[*]}" >&2
        exit 2
    fi
done
features=
for target in "$@"; do
    case $target in
    nbd_* | fuse_request) ;;
    # Of larger crates.
    config | control | fuse_below) features+=,daemon ;;
    *) features+=,daemon,sim ;;
    esac
done
cargo build -q --release --target "$triple" --no-default-features --features "${features#,}" \
    "${@/#/--bin=}"
# What runs before this one have found.
[ -e corpus.found ] || { mkdir corpus.found && tar -C corpus.found -xf corpus.tar.xz; }
for target in "$@"; do
    found=corpus.found/$target
    mkdir -p "$found" "artifacts/$target"
    echo "== $target: ${FUZZ_SECONDS:=60} s"
    log=$(mktemp)
    status=0
    "${CARGO_TARGET_DIR:-target}/$triple/release/$target" "$found" "corpus/$target" \
        -max_total_time="$FUZZ_SECONDS" -artifact_prefix="artifacts/$target/" -timeout=20 \
        -print_final_stats=1 >"$log" 2>&1 || status=$?
    count=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    [ "$status" = 0 ] || tail -n 40 "$log"
    rm -f "$log"
    [ "$status" = 0 ] || exit "$status"
    echo "$target $count" >>corpus.found/executions
    echo "$target: $count executions, $(ls "$found" | wc -l) inputs kept"
done
awk '{ sum += $2 } END { print "in sum until now: " sum " executions" }' corpus.found/executions
