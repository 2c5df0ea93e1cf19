//! `umount` and `/etc/fstab`, in a mount namespace that has a directory of its own for helpers.

mod common;
mod mounted;

use common::Ran;
use mounted::Bench;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// One test at a time: whoever mounts looks at all open files, each of which is in use meanwhile.
/// The tests of other programs do not run beside these (`.config/nextest.toml`).
static ALONE: Mutex<()> = Mutex::new(());

/// A shell in a mount namespace where the helpers are in `/sbin`. `fails` is for what must not
/// succeed.
fn run(bench: &Bench, script: &str) -> Ran {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    fs::create_dir(bench.path("sbin")).expect("made");
    for name in ["mount", "umount"].map(|name| format!("{name}.fuse.iopace")) {
        symlink(env!("CARGO_BIN_EXE_iopace"), bench.path("sbin").join(&name)).expect("linked");
        let short = name.replace(".fuse", "");
        symlink(env!("CARGO_BIN_EXE_iopace"), bench.path("sbin").join(short)).expect("linked");
    }
    let set_up = "set -e; mount --bind sbin /sbin
        fails() { if \"$@\"; then echo \"did not fail: $*\" >&2; exit 1; fi; }
        is_mounted() { grep -q \" $PWD/$1 fuse.iopace\" /proc/self/mounts; }\n";
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "240", "unshare", "-m", "sh", "-c"]);
    command.arg(format!("{set_up}{script}")).stdin(Stdio::null());
    command.env("IOPACE_RUNTIME_DIR", bench.path("sockets")).env_remove("XDG_RUNTIME_DIR");
    let data = bench.path("data");
    command.current_dir(data.parent().expect("it is in one"));
    command.env("iopace", env!("CARGO_BIN_EXE_iopace"));
    Ran::from(command.output().expect("started"))
}

#[test]
fn umount_returns_when_the_daemon_has_let_go() {
    let Some(bench) = Bench::new() else { return };
    let script = "mount -t iopace \"$PWD/data\" \"$PWD/data\"; is_mounted data
        pid=$($iopace mount --format json | sed -n 's/.*\"pid\": \\([0-9]*\\).*/\\1/p')
        kill -0 $pid; echo new >data/new
        exec 9<data/new; fails umount data; is_mounted data; exec 9<&-
        umount data; fails is_mounted data
        # Its record is gone, and with it the lock of the directory.
        fails ls sockets/mount-*.json; test $(cat data/new) = new
        # What is below can be unmounted at once, as at a shutdown.
        mkdir fs; mount -t tmpfs none fs; mkdir fs/data
        mount -t fuse.iopace \"$PWD/fs/data\" \"$PWD/fs/data\"; echo new >fs/data/new
        umount fs/data && umount fs
        mount -t iopace \"$PWD/data\" \"$PWD/view\"
        exec 9<view/new; umount -l view; fails is_mounted view; exec 9<&-
        fails /sbin/umount.fuse.iopace -x data";
    let ran = run(&bench, script);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let refused = "umount.iopace: ";
    assert!(ran.error.contains(refused) && ran.error.contains("is in use by sh (pid "), "{ran:?}");
    assert!(ran.error.contains("'-x' is not known"), "{ran:?}");
    assert!(!ran.out.contains("unmounted"), "umount says nothing of what went well: {ran:?}");
}

#[test]
fn all_lines_of_fstab_are_mounted_once_and_a_user_mounts_his_own() {
    let Some(bench) = Bench::new() else { return };
    // A user whom mount(8) knows the name of.
    let has = |program: &str, word: &str| {
        Command::new(program).arg(word).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    };
    if !has("setpriv", "--version") || !has("fusermount3", "-V") {
        println!("skipped: a user mounts by fusermount3");
        return;
    }
    let here = bench.path("data").parent().expect("it is in one").to_owned();
    fs::set_permissions(&here, fs::Permissions::from_mode(0o755)).expect("set");
    fs::create_dir(bench.path("own")).expect("made");
    std::os::unix::fs::chown(bench.path("own"), Some(65534), Some(65534)).expect("given");
    let shown = here.display();
    let options = "nofail,_netdev,comment=x,x-systemd.before=a.service,lazytime,noatime";
    let text = format!(
        "{shown}/data {shown}/data iopace {options} 0 0\n\
         {shown}/own {shown}/own iopace user,noauto,name=own 0 0\n"
    );
    bench.place.write("fstab", &text);
    // In a directory that the user may reach; a build's own need not be one.
    fs::copy(env!("CARGO_BIN_EXE_iopace"), bench.path("iopace.bin")).expect("copied");
    // On many machines every user may open /dev/fuse anyway; here in the namespace he may.
    let script = "mount --bind fstab /etc/fstab
        mknod fuse c 10 229; chmod 666 fuse; mount --bind fuse /dev/fuse
        mount -a; is_mounted data; mount -a
        test $(grep -c \" $PWD/data fuse.iopace\" /proc/self/mounts) = 1; umount data
        mount -t tmpfs -o mode=755 none /sbin; cp iopace.bin /sbin/mount.iopace
        cp iopace.bin /sbin/umount.fuse.iopace
        mkdir -m 700 run; chown 65534:65534 run; export IOPACE_RUNTIME_DIR=$PWD/run
        as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"; }
        as_user mount \"$PWD/own\"; grep \" $PWD/own fuse.iopace\" /proc/self/mounts
        as_user touch own/file; as_user umount \"$PWD/own\"; fails is_mounted own; ls own";
    let ran = run(&bench, script);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let line = ran.out.lines().find(|line| line.contains("fuse.iopace")).expect("mounted");
    for flag in ["nosuid", "nodev", "noexec", "user_id=65534"] {
        assert!(line.contains(flag), "{flag}: {line}");
    }
    assert!(ran.out.ends_with("file\n"), "{ran:?}");
}
