#!/bin/sh
# rustc for fuzzing: what is fuzzed (our crates, and the parsers of TOML and JSON) gets edge
# counters of LLVM's own pass. The rest goes without: libFuzzer looks at all counters after each
# execution.
rustc=$1
shift
case " $* " in
*" --crate-name iopace"* | *" --crate-name toml"* | *" --crate-name winnow "* | \
    *" --crate-name serde_json "*)
    set -- "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
        -Cllvm-args=-sanitizer-coverage-pc-table
    ;;
esac
exec "$rustc" "$@"
