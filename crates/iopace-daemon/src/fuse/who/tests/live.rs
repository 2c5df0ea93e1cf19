//! Real processes, as the kernel of this machine shows them.

use super::*;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
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

/// Cgroups of a test, removed when dropped, the deepest first.
struct Cgroups(Vec<PathBuf>);

impl Cgroups {
    /// In the hierarchy of version 2 or of blkio, whichever can be written to.
    fn make(name: &str, below: &str) -> Option<Cgroups> {
        let places = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup/blkio", "/sys/fs/cgroup"];
        let place = places.into_iter().map(Path::new).find(|place| {
            let is_hierarchy = place.join("cgroup.procs").exists();
            is_hierarchy && std::fs::create_dir(place.join(name)).is_ok()
        })?;
        let mut all = Cgroups(vec![place.join(name)]);
        let below = place.join(name).join(below);
        std::fs::create_dir(&below).expect("made in the new one");
        all.0.push(below);
        Some(all)
    }

    fn enter(&self, place: usize, one: &Waiting) -> std::io::Result<()> {
        std::fs::write(self.0[place].join("cgroup.procs"), one.0.id().to_string())
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for path in self.0.iter().rev() {
            let _ = std::fs::remove_dir(path);
        }
    }
}

#[test]
fn a_cgroup_in_a_place_that_was_handed_over_is_no_unit() {
    let name = format!("iopace-test-{}", std::process::id());
    let made = rustix::process::geteuid().is_root().then(|| Cgroups::make(&name, "db.service"));
    let Some(cgroups) = made.flatten() else {
        return eprintln!("skipped: needs root and a cgroup hierarchy that can be written to");
    };
    let groups = Arc::new(Groups::start(&[], &[], Vec::new()).expect("no devices"));
    let rules = ["cgroup=db.service:/db", "map=cgroup:/units"].map(|r| r.parse().expect("a rule"));
    let who = Who::new(&groups, Rules::new(rules.into(), "/").expect("right")).expect("made");
    let path = |one: &Waiting| groups.path(who.of(one.caller()).group());
    let roots = Waiting::start(0);
    if let Err(error) = cgroups.enter(1, &roots) {
        return eprintln!("skipped: no process can be put into {:?}: {error}", cgroups.0[1]);
    }
    assert_eq!(path(&roots), "/db", "root made it");
    std::os::unix::fs::chown(&cgroups.0[0], Some(4_242), None).expect("handed over");
    let users = Waiting::start(0);
    cgroups.enter(1, &users).expect("as before");
    let paid = path(&users);
    // They have to be gone before the cgroups are.
    drop((roots, users));
    assert!(paid.starts_with("/units/") && paid.ends_with(&format!("{name}/db.service")), "{paid}");
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
