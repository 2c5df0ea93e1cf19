#!/usr/bin/env bash
# etcd on one disk with a dd and a backup, see etcd.py. As root; `short`: some three minutes.
# IOPACE_BIN: the binary, else it is built.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v etcd >/dev/null; then
  echo "skipped: etcd is not installed (Debian: apt-get install etcd-server; no service needed)"
  exit 0
fi
if [ -z "${IOPACE_BIN:-}" ]; then
  cargo build -q --release -p iopace
  IOPACE_BIN="${CARGO_TARGET_DIR:-target}/release/iopace"
fi
export IOPACE_BIN PYTHONDONTWRITEBYTECODE=1
exec python3 scripts/etcd.py "$@"
