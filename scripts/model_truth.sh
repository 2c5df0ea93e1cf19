#!/usr/bin/env bash
# The same fio jobs live and simulated, see model_truth.py. `short`: a few seconds, ends with 1 if
# they are far apart. `recorded`: only live load that is recorded and replayed, see
# model_truth_recorded.py. IOPACE_BIN: the binary, else it is built.
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
export IOPACE_BIN
case "${1:-}" in
recorded) shift && exec python3 scripts/model_truth_recorded.py "$@" ;;
"")
  python3 scripts/model_truth.py
  echo && echo "## Recorded live and replayed" && echo
  exec python3 scripts/model_truth_recorded.py
  ;;
*) exec python3 scripts/model_truth.py "$@" ;;
esac
