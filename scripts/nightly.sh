#!/usr/bin/env bash
# Measures the rates that iopace promises, on this machine, now: all parts, or those named. Each
# figure is printed beside its bound; the table of docs/nightly.md is written anew from a whole run.
# It gates nothing: ends with 1 only if a part could not do its work, as when a program failed.
# IOPACE_BIN: the binary, else a release build. Takes about 35 minutes; Ctrl-C leaves the table.
set -uo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1

parts=(rates slots truth writers reader groups verify dashboard field etcd nice package policies
  evening vmhost cluster)
[ $# = 0 ] || parts=("$@")
folder=$(mktemp -d "${TMPDIR:-/tmp}/iopace-nightly-XXXXXX")
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM

if [ -z "${IOPACE_BIN:-}" ]; then
  cargo build -q --release -p iopace || exit 1
  IOPACE_BIN="${CARGO_TARGET_DIR:-target}/release/iopace"
fi
IOPACE_BIN=$(realpath "$IOPACE_BIN")
export IOPACE_BIN

# The rates that tests in Rust measure: their rows stand in what the tests print.
rates() {
  cargo nextest run -p iopace-daemon --features nightly --no-capture --retries 0 \
    -E 'binary(rates) | (binary(mount) & test(/^rates::/))' >"$folder/rates" 2>&1
  local status=$?
  python3 scripts/nightly.py rows <"$folder/rates"
  [ $status = 0 ] || tail -n 40 "$folder/rates"
  return $status
}

perform() { # part
  case $1 in
    rates) rates ;;
    slots) python3 scripts/groups.py slots short ;;
    truth) scripts/model_truth.sh short ;;
    writers | reader | groups) python3 scripts/pace.py "$1" short ;;
    verify) IOPACE_BIN='' scripts/verify.sh ;;
    policies)
      scripts/policies.sh build "$folder/modules" &&
        python3 scripts/bench_policies.py "$folder/modules"
      ;;
    package) scripts/package.sh build "$IOPACE_BIN" && scripts/package.sh try ;;
    dashboard) env PATH="/usr/bin:/bin:$PATH" python3 scripts/dashboard.py ;;
    etcd) scripts/etcd.sh short ;;
    # Failures of minutes: scripts/cluster.sh.
    cluster) SECONDS_EACH=12 scripts/cluster.sh shares ;;
    nice) python3 scripts/bench_nice.py short ;;
    evening | vmhost)
      # A row that does not hold is a figure that is missed, no failure of the part.
      { scripts/guest.sh --format json "$1" || true; } | python3 scripts/nightly.py guest
      ;;
    field) scripts/field.sh geom slots postmark rsync commits --short ;;
    *)
      echo "nightly: no part '$1': ${parts[*]}" >&2
      return 2
      ;;
  esac
}

failed=0
for part in "${parts[@]}"; do
  echo "== $part"
  export IOPACE_FIGURES=$folder/$part.json
  : >"$IOPACE_FIGURES"
  begin=$SECONDS
  perform "$part" </dev/null
  status=$?
  if [ $status != 0 ]; then
    failed=$((failed + 1))
    echo "FAILED: $part ended with $status: its figures are not whole"
    echo '{"figure": "the part itself", "measured": "failed", "bound": "it ends", "holds": false}' \
      >>"$IOPACE_FIGURES"
  fi
  echo "-- $part: $((SECONDS - begin)) s"
done
echo
[ $# != 0 ] || python3 scripts/nightly.py page docs/nightly.md "$folder" "${parts[@]}"
python3 scripts/nightly.py verdict "$folder" "${parts[@]}"
[ "$failed" = 0 ]
