#!/usr/bin/env bash
# A farm of hosts with one array and etcd on one machine, as root.
#   cluster.sh                    all of it (some 45 minutes; SECONDS_EACH=12 CUT_SECONDS=14: 15)
#   cluster.sh short              one limit of three hosts: it is never exceeded (a minute)
#   cluster.sh shares [PART...]   limits and weights, as they are and in failures: cluster_shares.py
#   cluster.sh array [PART...]    what is lost when the array, or the way to it, fails: cluster.py
# IOPACE_BIN: the binary, else it is built.
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
case ${1:-all} in
  all)
    status=0
    python3 scripts/cluster_shares.py || status=1
    python3 scripts/cluster.py || status=1
    exit $status
    ;;
  short) SHORT=1 HOSTS=3 exec python3 scripts/cluster_shares.py limit ;;
  shares) exec python3 scripts/cluster_shares.py "${@:2}" ;;
  array) exec python3 scripts/cluster.py "${@:2}" ;;
  *) sed -n '2,7s/^# //p' "$0" >&2 && exit 2 ;;
esac
