#!/usr/bin/env bash
# The loadable policies of contrib/policy: fifo, deadline and fair of iopace itself, the template,
# and the example in C. Quick when nothing has changed.
#
#   scripts/policies.sh build DIR    DIR/{fifo,deadline,fair,template,example}.wasm
#   scripts/policies.sh test         their own tests, on this machine
#
# A tool that is missing is said aloud, and what needs it is skipped; the rest is built.
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."

usage() {
  sed -n '2,8s/^# \?//p' "$0" >&2
  exit 2
}

target=wasm32-unknown-unknown
made="$(realpath -m "${CARGO_TARGET_DIR:-target}")/policies"

case "$#$*" in
  "1test")
    for crate in template ported; do
      (cd contrib/policy/$crate && cargo test --locked --target-dir "$made")
    done
    for scheduler in deadline fair; do
      (cd contrib/policy/ported &&
        cargo test --locked --target-dir "$made" --features $scheduler)
    done
    exit 0
    ;;
  "2build "*) ;;
  *) usage ;;
esac
dir=$(cd "$here" && mkdir -p "$2" && cd "$2" && pwd)

# keep FILE NAME: FILE as DIR/NAME.wasm; one that is the same stays, with its date.
keep() {
  cmp -s "$1" "$dir/$2.wasm" || cp "$1" "$dir/$2.wasm"
  echo "$2.wasm: $(wc -c <"$1") bytes"
}

# crate FOLDER FILE NAME [OPTION...]: a crate of contrib/policy.
crate() {
  local folder=$1 file=$2 name=$3
  shift 3
  (cd "contrib/policy/$folder" &&
    cargo build --quiet --locked --release --target $target --target-dir "$made" "$@")
  keep "$made/$target/release/$file.wasm" "$name"
}

if [ -d "$("${RUSTC:-rustc}" --print target-libdir --target $target)" ]; then
  crate ported ported_policy fifo
  crate ported ported_policy deadline --features deadline
  crate ported ported_policy fair --features fair
  crate template template_policy template
else
  echo "skipped: fifo, deadline, fair, template: no target $target (rustup target add $target)"
fi

# The linker is a package of its own.
if ! command -v clang >/dev/null; then
  echo "skipped: example: clang is not installed (apt-get install clang lld)"
elif ! command -v wasm-ld >/dev/null && ! clang --target=wasm32 -print-prog-name=wasm-ld | grep -q /
then
  echo "skipped: example: clang has no linker for wasm32 (apt-get install lld)"
else
  mkdir -p "$made"
  clang --target=wasm32 -nostdlib -std=c11 -O2 -Wall -Wextra -Werror \
    -Wl,--no-entry,--strip-all,-z,stack-size=65536 \
    -o "$made/example.wasm" contrib/policy/example.c
  keep "$made/example.wasm" example
fi
