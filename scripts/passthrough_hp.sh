#!/usr/bin/env bash
# Builds libfuse's example passthrough_hp, which no package has as a program, and prints its path;
# prints nothing, and says why, where it cannot. The source is that of the Debian package fuse3,
# fetched by apt-get with lists of its own: what the system is set up with stays as it is.
# One line is changed: with NO_WRITEBACK_CACHE set it does not ask for the write-back cache.
set -euo pipefail
cd "$(dirname "$0")/.."
into="${CARGO_TARGET_DIR:-target}/peers"
mkdir -p "$into/lists/partial"
into=$(realpath "$into")
program="$into/passthrough_hp"
if [ -x "$program" ]; then
  echo "$program"
  exit
fi
say() { echo "passthrough_hp: $1; the table goes without it" >&2; exit 0; }
command -v apt-get >/dev/null || say 'no apt-get to get its source with'
pkg-config --exists fuse3 2>/dev/null || say 'libfuse3-dev is missing: make setup'
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
echo "deb-src http://deb.debian.org/debian $suite main" >"$into/source.list"
options=(-qq -o "Dir::Etc::sourcelist=$into/source.list" -o Dir::Etc::sourceparts=/nonexistent
  -o "Dir::State::lists=$into/lists")
cd "$into"
{ apt-get "${options[@]}" update && apt-get "${options[@]}" source --download-only fuse3; } >&2 ||
  say 'its source cannot be fetched'
rm -rf source && mkdir source
tar -xf "$(ls fuse3_*.orig.tar.* | grep -v asc$)" -C source --strip-components=1 ||
  say 'its source is not as expected'
code=source/example/passthrough_hp.cc
asked='fs.timeout \&\& conn->capable \& FUSE_CAP_WRITEBACK_CACHE'
sed -i "s/if (${asked//\\\\/})/if (!getenv(\"NO_WRITEBACK_CACHE\") \\&\\& $asked)/" "$code"
grep -q NO_WRITEBACK_CACHE "$code" || say 'its source is not as expected'
# shellcheck disable=SC2046
c++ -O2 -w -o "$program" "$code" $(pkg-config fuse3 --cflags --libs) -lpthread >&2 ||
  say 'it cannot be built'
rm -rf source lists fuse3_*
echo "$program"
