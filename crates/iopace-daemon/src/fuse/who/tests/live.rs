//! Real processes, as the kernel of this machine shows them.

use super::*;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A process that waits, with this set as by `ionice`; ended when dropped.
struct Waiting(Child);

impl Waiting {
    fn start(ioprio: libc::c_int) -> Waiting {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        // SAFETY: one system call, which is all that may be done between fork and exec.
        unsafe {
            command.pre_exec(move || match libc::syscall(libc::SYS_ioprio_set, 1, 0, ioprio) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        Waiting(command.spawn().expect("cat"))
    }

    fn caller(&self) -> Caller {
        Caller { pid: self.0.id(), uid: 0, gid: 0 }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn ionice_of_a_real_process_counts() {
    let groups = Arc::new(Groups::start(&[], &[], Vec::new()).expect("no devices"));
    let rules = ["program=ca*:/cats".parse().expect("a rule")];
    let rules = Rules::new(rules.into(), "/").expect("right");
    let who = Who::new(&groups, rules).expect("made");
    let plain = Waiting::start(0);
    let idle = Waiting::start(libc::c_int::from(IDLE));
    let low = Waiting::start(2 << 13 | 6);
    let path = |one: &Waiting| groups.path(who.of(one.caller()).group());
    assert_eq!((&*path(&plain), &*path(&idle), &*path(&low)), ("/cats", "/cats/idle", "/cats/be6"));
    let (all, _) = groups.processes(10);
    assert_eq!(all.len(), 3);
    groups.create("/dogs", false).expect("made");
    groups.move_process(low.0.id(), "/dogs").expect("moved");
    assert_eq!(path(&low), "/dogs/be6");
    let caller = low.caller();
    drop(low);
    groups.remove("/dogs").expect("nobody pays as it");
    // As a process of our own, and one that is gone.
    let own = who.of(Caller { pid: std::process::id(), uid: 0, gid: 0 });
    assert_ne!(own.task(), who.of(plain.caller()).task());
    assert_eq!(groups.path(who.of(caller).group()), "/");
}
