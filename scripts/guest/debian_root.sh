# shellcheck shell=bash
# A Debian with systemd, as an ext4 image, with the package of iopace in /opt: for guest.sh.

# Makes the image $1 with the script $2 as what runs at each boot; $3 is the package, $4 has the
# kernel's modules, in lib/modules. In $run, which goes at the end.
debian_root() {
    local root=$run/debian version
    local sources=(/etc/apt/sources.list.d/debian.sources)
    [ -e "${sources[0]}" ] || sources=(/etc/apt/sources.list)
    mmdebstrap --quiet --variant=minbase \
        --include=systemd,systemd-sysv,dbus,udev,kmod,fuse3,procps,python3,restic \
        "$suite" "$root" "${sources[@]}" || return 1
    cp "$3" "$root/opt/iopace.deb"
    cp scripts/guest/commits.py "$root/opt/"
    install -m 755 "$2" "$root/usr/local/sbin/trial"
    version=$(basename "$4"/lib/modules/*)
    mkdir -p "$root/usr/lib/modules"
    cp -r "$4/lib/modules/$version" "$root/usr/lib/modules/"
    chroot "$root" depmod "$version"
    cat >"$root/etc/systemd/system/trial.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=idle
ExecStart=/usr/local/sbin/trial
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
UNIT
    mkdir -p "$root/etc/systemd/system/graphical.target.wants"
    ln -sf /etc/systemd/system/trial.service "$root/etc/systemd/system/graphical.target.wants/"
    ln -sf /usr/lib/systemd/system/graphical.target "$root/etc/systemd/system/default.target"
    ln -sf /dev/null "$root/etc/systemd/system/serial-getty@ttyS0.service"
    echo "/dev/vda / ext4 defaults 0 1" >"$root/etc/fstab"
    echo nas >"$root/etc/hostname"
    truncate -s 3G "$1"
    mkfs.ext4 -q -d "$root" "$1" || return 1
    rm -rf --one-file-system "$root"
}

# An initramfs $1 that goes on with the first disk; $2 has busybox and the modules.
debian_initramfs() {
    local root=$run/first module
    mkdir -p "$root"/{bin,dev,proc,new}
    cp "$2/bin/busybox" "$root/bin/"
    module=$(find "$2/lib/modules" -name virtio_blk.ko.xz)
    xz -dc "$module" >"$root/virtio_blk.ko"
    cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox mount -t devtmpfs none /dev
/bin/busybox insmod /virtio_blk.ko
/bin/busybox mount -t ext4 /dev/vda /new || exec /bin/busybox poweroff -f
/bin/busybox mount --move /dev /new/dev
exec /bin/busybox switch_root /new /sbin/init
INIT
    chmod +x "$root/init"
    (cd "$root" && find . | "$2/bin/busybox" cpio -o -H newc 2>/dev/null) >"$1"
    rm -rf "$root"
}
