#!/usr/bin/env bash
# The programs of the four sources through `iopace mount`, before and after, see field/__main__.py.
# IOPACE_BIN: the binary, else it is built.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${IOPACE_BIN:-}" ]; then
  cargo build -q --release -p iopace
  IOPACE_BIN="${CARGO_TARGET_DIR:-target}/release/iopace"
fi
export IOPACE_BIN
export PYTHONDONTWRITEBYTECODE=1
exec python3 scripts/field "$@"
