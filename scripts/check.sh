#!/usr/bin/env bash
# The short loop while working, warm in two minutes: format, the project's own rules, clippy and the
# unit tests of the crates that have changed since CHECK_BASE (HEAD; the last commit if the tree is
# clean). `make test` is the whole.
set -euo pipefail
cd "$(dirname "$0")/.."

changed() { git diff --name-only "$1" -- && git ls-files --others --exclude-standard; }
files=$(changed "${CHECK_BASE:-HEAD}")
[ -n "$files" ] || files=$(changed HEAD~1)

# Crates by their folder; what concerns all of them is all of them.
crates=()
if grep -qE '^(Cargo\.(toml|lock)|\.cargo/|\.config/)' <<<"$files"; then
  crates=(--workspace)
else
  while read -r crate; do
    [ -z "$crate" ] || crates+=(-p "$crate")
  done < <({ grep -oE '^(crates/[^/]+|xtask)/' <<<"$files" || true; } |
    sed 's|^crates/||; s|/$||' | sort -u)
fi

echo "== format"
cargo fmt --all --check
echo "== tidy"
cargo xtask tidy
if [ ${#crates[@]} = 0 ]; then
  echo "no crate has changed: nothing to compile"
  exit 0
fi
echo "== lint: ${crates[*]}"
cargo clippy --locked "${crates[@]}" --all-targets -- -D warnings
echo "== unit tests: ${crates[*]}"
if cargo nextest --version >/dev/null 2>&1; then
  cargo nextest run --locked "${crates[@]}" --lib --bins --no-tests pass
else
  cargo test --locked "${crates[@]}" --lib --bins
fi
echo "check: all well in $SECONDS s; make test is the whole"
