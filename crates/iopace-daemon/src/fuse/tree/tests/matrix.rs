//! Each kind of caller may do the same on a mount as on a plain directory beside it.
//!
//! A caller is a thread of its own: users, groups and capabilities belong to threads. Root prepares
//! the same files on both sides, the thread makes one call on each, and results and files are
//! compared.

mod calls;

use super::Mounted;
use super::twins::{Seen, seen};
use calls::{ACTS, Act, RAW_SOCKETS, attributed, list, moded, opened, truncated};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// A kind of caller.
struct Identity {
    name: &'static str,
    uid: u32,
    gid: u32,
    groups: &'static [u32],
    /// Capabilities that count; `None` for what the user has anyway.
    capabilities: Option<CapabilitySet>,
}

/// The user and group that own the files here.
const OWNER: u32 = 1000;
const GROUP: u32 = 2000;

fn identities() -> Vec<Identity> {
    let plain = |name, uid, gid, groups| Identity { name, uid, gid, groups, capabilities: None };
    let able = |name, uid, capabilities| Identity {
        name,
        uid,
        gid: uid,
        groups: &[],
        capabilities: Some(capabilities),
    };
    vec![
        plain("root", 0, 0, &[]),
        plain("owner", OWNER, OWNER, &[]),
        plain("owner in the group", OWNER, OWNER, &[GROUP]),
        plain("member by its group", 1001, GROUP, &[]),
        plain("member by a further group", 1002, 1002, &[1002, 3000, GROUP]),
        plain("other", 1003, 1003, &[1003]),
        able("other with CAP_FOWNER", 1004, CapabilitySet::FOWNER),
        able("root without CAP_DAC_OVERRIDE", 0, {
            CapabilitySet::all() - CapabilitySet::DAC_OVERRIDE - CapabilitySet::DAC_READ_SEARCH
        }),
        able("root without CAP_FSETID", 0, CapabilitySet::all() - CapabilitySet::FSETID),
        able("root without any", 0, CapabilitySet::empty()),
    ]
}

impl Identity {
    /// Makes this thread the caller, for good.
    fn become_it(&self) {
        let own = rustix::thread::capabilities(None).unwrap();
        rustix::thread::set_keep_capabilities(true).unwrap();
        let groups: Vec<Gid> = self.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
        rustix::thread::set_thread_groups(&groups).unwrap();
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        let kept = match self.capabilities {
            Some(kept) => own.permitted & kept,
            None if self.uid == 0 => own.permitted,
            None => CapabilitySet::empty(),
        };
        let inheritable = CapabilitySet::empty();
        let sets = CapabilitySets { effective: kept, permitted: kept, inheritable };
        rustix::thread::set_capabilities(None, sets).unwrap();
    }
}

/// Owner, group and mode of what a call may be about. A directory is made with each name in it that
/// is not `new`, which nothing ever is.
const FILES: &[(&str, u32, u32, u32)] = &[
    ("f", OWNER, GROUP, 0o664),
    ("own", OWNER, GROUP, 0o600),
    ("suid", OWNER, GROUP, 0o6775),
    ("sgid", OWNER, GROUP, 0o2664),
    ("run", OWNER, GROUP, 0o711),
    ("able", OWNER, GROUP, 0o775),
    ("root", 0, 0, 0o644),
    ("owner", OWNER, GROUP, 0o644),
    ("d", OWNER, GROUP, 0o775),
    ("group", OWNER, GROUP, 0o2775),
    ("private", OWNER, GROUP, 0o700),
    // The stickiness of a directory does not count for its owner.
    ("sticky", 0, GROUP, 0o1777),
    ("shared", 0, GROUP, 0o3777),
];

/// Makes what `names` name, in a new directory for everybody.
fn prepare(root: &Path, names: &[&str]) -> io::Result<()> {
    fs::create_dir(root)?;
    moded(root.to_owned(), 0o777)?;
    for name in names {
        let mut path = root.to_owned();

        for part in name.split('/') {
            path.push(part);
            let known = FILES.iter().find(|file| file.0 == part);
            if part == "link" {
                std::os::unix::fs::symlink("f", &path)?;
            } else if let Some((_, uid, gid, mode)) = known.filter(|_| !path.exists()) {
                let is_file = ["f", "own", "suid", "sgid", "run", "able", "root", "owner"];
                match part {
                    "run" => drop(fs::copy("/bin/true", &path)?),
                    _ if is_file.contains(&part) => fs::write(&path, "0123456789")?,
                    _ => fs::create_dir(&path)?,
                }
                chown(&path, Some(*uid), Some(*gid))?;
                moded(path.clone(), *mode)?;
                if part == "able" {
                    attributed(path.clone(), "security.capability", &RAW_SOCKETS)?;
                }
            }
        }
    }
    Ok(())
}

/// An identity's thread: takes a call and where, gives the error number.
struct Worker {
    send: Sender<(Act, PathBuf)>,
    said: Receiver<Option<i32>>,
}

impl Worker {
    fn start(identity: Identity) -> Worker {
        let (send, calls) = channel::<(Act, PathBuf)>();
        let (answer, said) = channel();
        thread::spawn(move || {
            // SAFETY: only working directory, root and umask of this thread become its own.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_FS) }, 0);
            rustix::process::umask(Mode::from_raw_mode(0o002));
            identity.become_it();
            for (act, root) in calls {
                let error = act(&root).err();
                let number = error.map(|error| error.raw_os_error().unwrap_or(-1));
                if answer.send(number).is_err() {
                    return;
                }
            }
        });
        Worker { send, said }
    }

    fn call(&self, act: Act, root: &Path) -> Option<i32> {
        self.send.send((act, root.to_owned())).unwrap();
        self.said.recv().unwrap()
    }
}

type Result = (Option<i32>, BTreeMap<PathBuf, Seen>);

/// The result of a call and the files it leaves, in a new directory of that name. It is made in
/// `below`, and seen in `root`.
fn result(
    worker: &Worker,
    (names, act): (&[&str], Act),
    [below, root]: [&Path; 2],
    name: &str,
) -> Result {
    prepare(&below.join(name), names).unwrap();
    let said = worker.call(act, &root.join(name));
    let left = seen(&root.join(name));
    fs::remove_dir_all(below.join(name)).unwrap();
    (said, left)
}

#[test]
fn each_caller_may_what_it_may_without_us() {
    let ways = [("elsewhere", Mounted::elsewhere()), ("over itself", Mounted::over_itself())];
    for (way, mounted) in ways {
        let Some(mounted) = mounted else { continue };
        // The directory below a mount over it is reached by the descriptor that was opened before.
        let directory = mounted.tree.inodes.get(super::super::numbers::ROOT).unwrap();
        let below = PathBuf::from(format!("/proc/self/fd/{}", directory.name()));
        let mut differ = Vec::new();
        for (at, identity) in identities().into_iter().enumerate() {
            let name = identity.name;
            let worker = Worker::start(identity);
            for (place, (what, names, act)) in ACTS.iter().enumerate() {
                let folder = format!("{at}-{place}");
                let plain = [mounted.plain.as_path(); 2];
                let plain = result(&worker, (names, *act), plain, &folder);
                let through = [below.as_path(), mounted.mount.as_path()];
                let through = result(&worker, (names, *act), through, &folder);
                if plain != through {
                    differ.push(difference(name, what, &plain, &through));
                }
            }
        }
        assert!(differ.is_empty(), "{way}: {} differ\n{}", differ.len(), differ.join("\n"));
    }
}

/// In which way two results differ.
fn difference(name: &str, what: &str, plain: &Result, through: &Result) -> String {
    let files = plain.1.keys().chain(through.1.keys());
    let file = files.into_iter().find(|file| plain.1.get(*file) != through.1.get(*file));
    let of = |result: &Result| {
        format!("error {:?}, {:?}", result.0, file.and_then(|file| result.1.get(file)))
    };
    format!("{name}: {what}: {file:?}\n  plain   {}\n  through {}", of(plain), of(through))
}

#[test]
fn what_the_kernel_has_cached_gives_nobody_more() {
    let Some(mounted) = Mounted::over_itself() else { return };
    let directory = mounted.tree.inodes.get(super::super::numbers::ROOT).unwrap();
    let below = PathBuf::from(format!("/proc/self/fd/{}", directory.name()));
    let root = mounted.mount.join("all");
    prepare(&below.join("all"), &["sticky/owner", "f", "sgid", "d/owner"]).unwrap();
    let worker = Worker::start(identities().swap_remove(1));
    let known: Act = |r| {
        for name in ["sticky/owner", "f", "sgid", "d/owner"] {
            fs::symlink_metadata(r.join(name))?;
        }
        Ok(())
    };
    assert_eq!(worker.call(known, &root), None);
    // For an hour the kernel takes all of them for the owner's.
    for name in ["sticky/owner", "f", "sgid", "d/owner", "d"] {
        chown(below.join("all").join(name), Some(0), Some(0)).unwrap();
    }
    moded(below.join("all/d"), 0o755).unwrap();
    moded(below.join("all/f"), 0o600).unwrap();
    let refused: [(&str, Act, i32); 7] = [
        ("unlink", |r| fs::remove_file(r.join("sticky/owner")), libc::EPERM),
        ("rename", |r| fs::rename(r.join("sticky/owner"), r.join("sticky/x")), libc::EPERM),
        ("create", |r| opened(r.join("d/new"), OFlags::CREATE).map(drop), libc::EACCES),
        ("open", |r| opened(r.join("f"), OFlags::RDONLY).map(drop), libc::EACCES),
        ("truncate", |r| truncated(r.join("f"), 0), libc::EACCES),
        ("chmod", |r| moded(r.join("sgid"), 0o4755), libc::EPERM),
        ("list", |r| attributed(r.join("sgid"), "system.posix_acl_access", &list()), libc::EPERM),
    ];
    for (what, act, error) in refused {
        assert_eq!(worker.call(act, &root), Some(error), "{what}");
    }
    assert_eq!(fs::read(below.join("all/f")).unwrap(), b"0123456789");
}
