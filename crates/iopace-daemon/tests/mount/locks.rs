//! Programs that wait for locks, and the end of their mount.

use crate::{Mounted, wait_for};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::process::{Child, Command, Stdio};

/// A program that is ended when it goes, also when the test has failed.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_mount_ends_with_those_who_wait() {
    let Some(mounted) = Mounted::new(|_| {}) else { return };
    fs::write(mounted.below("f"), "").expect("written");
    let holder = File::open(mounted.below("f")).expect("open");
    flock(&holder, FlockOperation::LockExclusive).expect("locked");
    let mut command = Command::new("flock");
    command.arg(mounted.at("f")).arg("true").stdin(Stdio::null()).stderr(Stdio::null());
    let Ok(waiter) = command.spawn() else {
        println!("skipped: it needs flock(1)");
        return;
    };
    let mut waiter = Program(waiter);
    let waits = format!("{} ", libc::SYS_flock);
    let call = format!("/proc/{}/syscall", waiter.0.id());
    wait_for("one who waits", || fs::read_to_string(&call).is_ok_and(|is| is.starts_with(&waits)));
    mounted.daemon().mounts().cut();
    wait_for("its end", || waiter.0.try_wait().expect("it is ours").is_some());
    assert!(!waiter.0.wait().expect("ended").success());
    wait_for("the end of the mount", || mounted.daemon().mounts().reports().is_empty());
}
