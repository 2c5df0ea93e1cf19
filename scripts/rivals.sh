#!/usr/bin/env bash
# iopace beside the kernel's schedulers, see rivals.py. As root; `short`: some eight minutes.
# IOPACE_BIN: the binary, else it is built.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v fio >/dev/null; then
  echo "skipped: fio is not installed (make setup)"
  exit 0
fi
if [ -z "${IOPACE_BIN:-}" ]; then
  cargo build -q --release -p iopace
  IOPACE_BIN="${CARGO_TARGET_DIR:-target}/release/iopace"
fi
export IOPACE_BIN PYTHONDONTWRITEBYTECODE=1
exec python3 scripts/rivals.py "$@"
