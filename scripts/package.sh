#!/usr/bin/env bash
# The Debian package.
#   package.sh build [BINARY]   makes it, in target/debian; of the release build if none is named
#   package.sh try [DEB]        installs it in a clean Debian, tries it there, and purges it:
#                               nothing may be left (as root, with mmdebstrap; else it skips, aloud)
#   package.sh                  both
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
export PATH

need() { # program how
  command -v "$1" >/dev/null && return
  echo "package: no $1: $2" >&2
  exit 1
}

# Its files, by 'make install', for the list of assets in crates/iopace/Cargo.toml.
build() { # [binary]
  need cargo-deb "cargo install cargo-deb --locked"
  local binary=${1:-} folder=target/package version
  if [ -z "$binary" ]; then
    cargo build --release -p iopace
    binary=${CARGO_TARGET_DIR:-target}/release/iopace
  fi
  local maintainer='The iopace maintainers <maintainers@users.noreply.a-seed-3626b009.example>'
  rm -rf "$folder" && mkdir -p "$folder" target/debian
  cp "$binary" "$folder/iopace" && strip --strip-unneeded "$folder/iopace"
  make -s install DESTDIR="$PWD/$folder" PREFIX=/usr SBINDIR=/usr/sbin BINARY="$folder/iopace"
  version=$("$folder/iopace" --version | cut -d' ' -f2)
  {
    echo "iopace ($version-1) unstable; urgency=medium"
    echo
    echo "  * What is new: CHANGELOG.md of the sources."
    echo
    echo " -- $maintainer  $(date -R)"
  } >"$folder/changelog"
  rm -f target/debian/iopace_*.deb
  cargo deb --quiet --no-build --no-strip -p iopace --output target/debian/
}

lint() { # deb
  if ! command -v lintian >/dev/null; then
    echo "package: skipped lintian: it is not installed"
    return
  fi
  # There is no bug of Debian's that a first upload would close.
  lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs "$1"
  echo "package: lintian finds no error and no warning"
}

# All paths of a root, but what dpkg, apt, mount(8) and triggers keep for themselves.
files() { # root
  find "$1" -xdev \( -path "$1/proc" -o -path "$1/sys" -o -path "$1/dev" -o -path "$1/tmp" \
    -o -path "$1/var/lib/dpkg" -o -path "$1/var/lib/apt" -o -path "$1/run/mount" \
    -o -path "$1/var/cache" -o -path "$1/var/log" \) -prune \
    -o -printf '/%P\n' | sort
  sort "$1/etc/group" "$1/etc/passwd"
}

# In a mount and process namespace of its own: whatever hangs or stays mounted ends with it.
inside() { # root script
  timeout -s KILL 600 unshare --mount --pid --fork --kill-child sh -ec '
    mount --bind "$1" "$1"; mount -t proc proc "$1/proc"; mount --rbind /dev "$1/dev"
    exec chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C sh -exc "$2"
  ' sh "$1" "$2"
}

try() { # [deb]
  local deb=${1:-}
  [ -n "$deb" ] || deb=$(ls target/debian/iopace_*.deb)
  lint "$deb"
  if [ "$(id -u)" != 0 ] || ! command -v mmdebstrap >/dev/null; then
    echo "package: skipped the clean Debian: it takes root and mmdebstrap"
    return
  fi
  folder=$(mktemp -d "${TMPDIR:-/tmp}/iopace-package-XXXXXX")
  trap 'rm -rf --one-file-system "$folder"' EXIT
  trap 'exit 130' INT TERM
  local root=$folder/root
  # The sources of this machine: what it can reach. The first suite names the release.
  local sources=(/etc/apt/sources.list.d/debian.sources)
  [ -e "${sources[0]}" ] || sources=(/etc/apt/sources.list)
  mmdebstrap --quiet --variant=minbase --include=fuse3,man-db,mount,systemd \
    "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root" "${sources[@]}"
  cp "$deb" "$root/tmp/iopace.deb"
  files "$root" >"$folder/before"
  inside "$root" '
    fails() { if "$@"; then echo "package: did not fail: $*" >&2; exit 1; fi; }
    apt-get install --quiet --yes --no-install-recommends /tmp/iopace.deb
    iopace --version
    for page in iopace iopace-mount iopace-setup mount.iopace umount.fuse.iopace; do
      man -w $page
    done
    test "$(stat -c %a /usr/bin/iopace)" = 755
    fails systemctl is-enabled iopace.service
    # 1: it found something, as in a chroot without cgroups.
    iopace doctor || test $? = 1
    mkdir -p /srv/data && echo content >/srv/data/file
    iopace setup /srv/data --root / --yes
    grep -r ExecStart= /etc/systemd/system/iopace-mount@srv-data.service.d
    iopace setup /srv/data --root / --undo --yes
    if [ -c /dev/fuse ]; then
      mount -t iopace -o sched=rr /srv/data /srv/data
      grep " /srv/data .*fuse.iopace" /proc/self/mounts
      test "$(cat /srv/data/file)" = content
      # While something is mounted it cannot be removed.
      fails apt-get purge --quiet --yes iopace
      umount /srv/data
      fails grep fuse.iopace /proc/self/mounts
    else
      echo "skipped mounting: no /dev/fuse"
    fi
    rm -r /srv/data
    apt-get purge --quiet --yes iopace
  '
  files "$root" >"$folder/after"
  if ! diff "$folder/before" "$folder/after"; then
    echo "package: the lines above differ after it was purged" >&2
    exit 1
  fi
  echo "package: installed, tried and purged in a clean Debian; nothing was left"
}

case ${1:-} in
  build | try) "$@" ;;
  '')
    build
    try
    ;;
  *) sed -n '2,6s/^# //p' "$0" >&2 && exit 2 ;;
esac
