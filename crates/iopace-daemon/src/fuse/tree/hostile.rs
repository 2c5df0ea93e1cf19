//! What the tree makes of a file system that says anything, see [`crate::fuzzing`].

use super::attr::{NO_DEVICE, shown};
use super::forbids::Forbids;
use super::handle::Origin;
use super::known::Inodes;
use super::numbers::Numbers;
use super::numbers::ROOT;
use super::xattr::{CAPABILITIES, without_capabilities};
use crate::hostile::Bytes;
use iopace_fuse::FileType;
use rustix::fs::{CWD, Mode, OFlags, Stat};
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

/// Steps of one input: each costs some system calls.
const STEPS_MAX: usize = 64;

/// Numbers at the borders of what [`Numbers`] tells apart.
const ODD: [u64; 8] = [0, 1, 2, (1 << 48) - 1, 1 << 48, 1 << 62, 1 << 63, u64::MAX];

/// Any attributes.
fn stat(bytes: &mut Bytes<'_>) -> Stat {
    // SAFETY: plain integers, for which all zeroes are a value.
    let mut stat: Stat = unsafe { std::mem::zeroed() };
    (stat.st_dev, stat.st_ino) = (bytes.number(), bytes.number());
    (stat.st_mode, stat.st_rdev) = (bytes.number() as u32, bytes.number());
    (stat.st_uid, stat.st_gid) = (bytes.number() as u32, bytes.number() as u32);
    stat.st_nlink = bytes.number() as _;
    (stat.st_size, stat.st_blocks) = (bytes.number() as i64, bytes.number() as i64);
    stat.st_blksize = bytes.number() as _;
    (stat.st_atime, stat.st_atime_nsec) = (bytes.number() as i64, bytes.number());
    (stat.st_mtime, stat.st_mtime_nsec) = (bytes.number() as i64, bytes.number());
    (stat.st_ctime, stat.st_ctime_nsec) = (bytes.number() as i64, bytes.number());
    stat
}

fn forbids(bits: u8) -> Forbids {
    let all = [Forbids::SET_ID, Forbids::DEVICES, Forbids::RUNNING, Forbids::SCHEDULING];
    let set = all.into_iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
    set.fold(Forbids::default(), |sum, (_, one)| sum.and(one))
}

/// Attributes: no set-user-id bit and no device where they are forbidden.
pub(crate) fn attributes(bytes: &mut Bytes<'_>) {
    let forbids = forbids(bytes.byte());
    let stat = stat(bytes);
    let found = shown(7, forbids, &stat);
    assert_eq!((found.ino.0, found.uid, found.gid), (7, stat.st_uid, stat.st_gid));
    if found.kind == FileType::RegularFile && forbids.has(Forbids::SET_ID) {
        assert_eq!(found.perm & 0o6000, 0);
    }
    let is_device = matches!(found.kind, FileType::BlockDevice | FileType::CharDevice);
    if is_device && forbids.has(Forbids::DEVICES) {
        assert_eq!((found.perm, found.rdev), (0, NO_DEVICE));
    }
}

/// Numbers: each file that the kernel knows has one of its own, the same each time.
pub(crate) fn numbers(bytes: &mut Bytes<'_>) {
    let mut numbers = Numbers::new(bytes.number() % 4);
    let (mut known, mut taken) = (HashMap::new(), HashMap::new());
    while let Some(kind) = bytes.next() {
        let key = (bytes.number() % 4, number(bytes));
        let is_known = known.contains_key(&key);
        if kind % 4 == 0 && is_known {
            let id = known.remove(&key).expect("it is known");
            taken.remove(&id);
            numbers.forgotten(key, id);
            continue;
        }
        let id = numbers.id_of(key, |id| taken.get(&id).is_some_and(|other| *other != key));
        assert!(id > ROOT, "{key:?}: {id}");
        assert_eq!(*known.entry(key).or_insert(id), id, "{key:?}");
        assert_eq!(*taken.entry(id).or_insert(key), key, "{id:x} of two files");
        numbers.told(key, id);
        assert!(!taken.contains_key(&numbers.count()));
    }
}

fn number(bytes: &mut Bytes<'_>) -> u64 {
    let kind = bytes.byte();
    if kind < 128 { ODD[usize::from(kind) % ODD.len()] } else { bytes.number() }
}

/// A directory and a descriptor of it that opens nothing.
fn place() -> (OwnedFd, &'static OwnedFd) {
    static PLACE: OnceLock<OwnedFd> = OnceLock::new();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(CWD, std::env::temp_dir(), flags, Mode::empty());
    (open().expect("a directory"), PLACE.get_or_init(|| open().expect("a directory")))
}

/// By device and number: the number in the mount, generation, lookups and what is forbidden.
type Model = HashMap<(u64, u64), (u64, u64, u64, Forbids)>;

/// The kernel forgets some lookups of a file; if it knows none by this key, of one that is gone.
fn forget(
    inodes: &Inodes,
    (model, gone): (&mut Model, &mut Vec<(u64, u64)>),
    key: (u64, u64),
    count: u8,
) {
    let (id, lookups, left) = if let Some(one) = model.get_mut(&key) {
        let lookups = 1 + u64::from(count) % one.2;
        one.2 -= lookups;
        (one.0, lookups, one.2)
    } else {
        let Some((id, lookups)) = gone.pop() else { return };
        (id, lookups, 0)
    };
    drop(inodes.forget(id, lookups));
    if left == 0 {
        model.retain(|_, one| one.0 != id);
        assert!(inodes.get(id).is_err());
    }
}

/// The inodes that the kernel knows, found under any numbers and types: one for each file as long
/// as it is known, with what is forbidden kept, and a new generation when it comes again.
pub(crate) fn known(bytes: &mut Bytes<'_>) {
    let (root, path) = place();
    let Ok(inodes) = Inodes::new(root, usize::from(bytes.byte())) else { return };
    let origin = Origin::of(path.as_fd());
    let mut model = Model::new();
    // Those whose number is another one's by now, and how often the kernel was told of them.
    let mut gone: Vec<(u64, u64)> = Vec::new();
    let mut last_generation = 0;
    for _ in 0..STEPS_MAX {
        let Some(kind) = bytes.next() else { break };
        let key = (bytes.number() % 3, number(bytes) % 40);
        let mut stat = stat_of(key);
        stat.st_mode = u32::from(bytes.byte()) << 12 | 0o644;
        match kind % 6 {
            0..=2 => {
                let Ok(path) = path.try_clone() else { return };
                let forbidden = forbids(bytes.byte());
                let inode = inodes.found(path, &stat, &origin, forbidden);
                let (id, generation) = (inode.id(), inode.generation);
                // An evicted one of which only the number is the same may be another.
                if let Some((old, _, lookups, _)) = model.get(&key).filter(|old| old.0 != id) {
                    gone.push((*old, *lookups));
                    model.remove(&key);
                }
                let one = model.entry(key).or_insert((id, generation, 0, Forbids::default()));
                assert_eq!((one.0, one.1), (id, generation), "{key:?} has two numbers");
                assert!(one.2 > 0 || generation > last_generation);
                last_generation = last_generation.max(generation);
                let kept = one.3.and(forbidden);
                assert!(inode.forbidden.get() == inode.forbidden.get().and(kept), "{key:?}");
                *one = (id, generation, one.2 + 1, kept);
            }
            3 => {
                forget(&inodes, (&mut model, &mut gone), key, bytes.byte());
            }
            4 => inodes.evict(),
            _ => {
                if let Some((id, generation, ..)) = model.get(&key)
                    && let Ok(inode) = inodes.get(*id)
                {
                    assert_eq!((inode.id(), inode.generation), (*id, *generation));
                }
            }
        }
        assert_eq!(inodes.len(), model.len() + gone.len());
        assert!(inodes.open_count() <= inodes.len());
    }
    let current = model.values().map(|one| one.0);
    let mut ids: Vec<u64> = current.chain(gone.into_iter().map(|one| one.0)).collect();
    ids.sort_unstable();
    assert!(ids.windows(2).all(|two| two[0] != two[1]), "two files have one number");
}

fn stat_of((device, number): (u64, u64)) -> Stat {
    // SAFETY: plain integers, for which all zeroes are a value.
    let mut stat: Stat = unsafe { std::mem::zeroed() };
    (stat.st_dev, stat.st_ino) = (device, number);
    stat
}

/// Lists of names of extended attributes: capabilities go, the others stay in their order.
pub(crate) fn names(bytes: &mut Bytes<'_>) {
    let list = bytes.rest();
    let left = without_capabilities(list);
    let split = |list: &[u8]| -> Vec<Vec<u8>> {
        list.split_inclusive(|byte| *byte == 0)
            .map(|name| name.strip_suffix(b"\0").unwrap_or(name).to_vec())
            .collect()
    };
    let mut wanted = split(list);
    wanted.retain(|name| name != CAPABILITIES.as_bytes());
    assert_eq!(split(&left), wanted);
}
