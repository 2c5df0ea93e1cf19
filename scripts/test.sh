#!/usr/bin/env bash
# Everything that has to hold, in the order in which a mistake shows soonest. Stops at the first
# step that fails. The last line is `N passed, N failed, N skipped`: tests of all kinds, a failed
# step counting as one at least, and each step that could not run here as one skipped.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

passed=0
failed=0
skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Results are read from the output: no colours in it, and no snapshot written by a test.
export CARGO_TERM_COLOR=never NO_COLOR=1 INSTA_UPDATE=no
# What a second build would need is not kept where there was no first one: it takes as much disk as
# the build itself.
[ -e "${CARGO_TARGET_DIR:-target}/debug" ] || export CARGO_INCREMENTAL=0

finish() {
    echo
    echo "total: $SECONDS s"
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
    exit
}
trap 'echo; echo "interrupted"; failed=$((failed + 1)); finish' INT TERM

# Adds up the numbers before `$1` (passed, failed, ...) in the lines of the log that match `$2`.
count() {
    grep -E "$2" "$log" | grep -oE "[0-9]+ $1\b" | awk '{ sum += $1 } END { print sum + 0 }'
}

# Adds the results of a step: `tally SUMMARY-LINE-PATTERN`.
tally() {
    passed=$((passed + $(count passed "$1")))
    failed=$((failed + $(count '(failed|timed out|exec failed)' "$1")))
    skipped=$((skipped + $(count '(skipped|ignored)' "$1")))
}

# Runs one step: `step NAME PATTERN COMMAND...`; the pattern finds the lines with its results.
step() {
    local name=$1 pattern=$2 begin=$SECONDS status failed_before=$failed
    shift 2
    echo
    echo "== $name"
    "$@" 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    [ -z "$pattern" ] || tally "$pattern"
    if [ "$status" != 0 ]; then
        [ "$failed" -gt "$failed_before" ] || failed=$((failed + 1))
        echo
        echo "FAILED: $name, after $((SECONDS - begin)) s. To run it alone: $*"
        finish
    fi
    if [ "$failed" -gt "$failed_before" ]; then
        echo "FAILED: $name reports failures but ended well"
        finish
    fi
    echo "-- $name: $((SECONDS - begin)) s"
}

skip() {
    echo
    echo "== $1"
    echo "skipped: $2"
    skipped=$((skipped + 1))
}

libtest='^test result: '

step "setup" "" scripts/setup.sh
step "format" "" cargo fmt --all --check
step "tidy" "" cargo xtask tidy
step "wasm" "" cargo xtask wasm
skipped=$((skipped + $(grep -c '^skipped: ' "$log")))
step "lint" "" cargo clippy --locked --workspace --all-targets -- -D warnings
# Schedulers as modules: tests hold them to the built-in ones.
modules=$(realpath -m "${CARGO_TARGET_DIR:-target}/modules")
step "policies" "" scripts/policies.sh build "$modules"
skipped=$((skipped + $(grep -c '^skipped: ' "$log")))
if [ -e "$modules/fair.wasm" ]; then
    export IOPACE_POLICIES=$modules
    step "tests of policies" "$libtest" scripts/policies.sh test
fi
if cargo nextest --version >/dev/null 2>&1; then
    step "tests" '^ *Summary ' cargo nextest run --workspace
else
    step "tests" "$libtest" cargo test --workspace --all-targets
fi
# They include sources of the program by path, so a change there may break them unseen.
if command -v c++ >/dev/null; then
    step "fuzz targets" "" cargo check --locked --manifest-path fuzz/Cargo.toml --target-dir target
else
    skip "fuzz targets" "no C++ compiler for libFuzzer (apt-get install g++)"
fi
step "doc tests" "$libtest" cargo test --workspace --doc
step "instructions" "" cargo xtask instructions
skipped=$((skipped + $(grep -c '^skipped: ' "$log")))
step "docs" "" env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
if [ -x scripts/clients.sh ]; then
    step "real clients" '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' scripts/clients.sh
else
    skip "real clients" "no scripts/clients.sh"
fi
if cargo deny --version >/dev/null 2>&1; then
    step "deny" "" cargo deny check licenses bans sources
else
    skip "deny" "cargo-deny is not installed (tidy has checked the licences)"
fi
finish
