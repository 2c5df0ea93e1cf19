#!/usr/bin/env bash
# A farm of hosts on one machine, see cluster.py: as root; `cluster.sh [PART...]`, all parts unless
# some are named. HOSTS (3), SECONDS_EACH (10). IOPACE_BIN: the binary, else it is built.
set -euo pipefail
cd "$(dirname "$0")/.."
for tool in etcd fio ip python3; do
  if ! command -v "$tool" >/dev/null; then
    echo "skipped: $tool is not installed (Debian: apt-get install etcd-server fio iproute2)"
    exit 0
  fi
done
if [ "$(id -u)" != 0 ] || ! unshare --net true 2>/dev/null; then
  echo "skipped: network namespaces need root"
  exit 0
fi
if [ -z "${IOPACE_BIN:-}" ]; then
  cargo build -q --release -p iopace
  IOPACE_BIN="${CARGO_TARGET_DIR:-target}/release/iopace"
fi
export IOPACE_BIN PYTHONDONTWRITEBYTECODE=1
exec python3 scripts/cluster.py "$@"
