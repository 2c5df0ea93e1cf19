//! The cache of descriptors, without a mount.

use super::super::handle::{Handle, Identity};
use super::table::Known;
use super::*;
use proptest::prelude::*;
use rustix::fs::{CWD, Mode, OFlags};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A directory and what is known of it.
struct Bench {
    folder: TempDir,
    inodes: Inodes,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let inodes = Inodes::new(fs::File::open(folder.path()).unwrap().into(), 16).unwrap();
        Bench { folder, inodes }
    }

    /// The same, where descriptors are evicted; says so if they are not here.
    fn evicting() -> Option<Bench> {
        let bench = Bench::new();
        if bench.inodes.root.origin.has_handles() {
            return Some(bench);
        }
        eprintln!("skipped: no file handles for files of {}", bench.folder.path().display());
        None
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn find(&self, name: &str) -> io::Result<Arc<Inode>> {
        let path = open(&self.path(name))?;
        let stat = rustix::fs::fstat(&path)?;
        Ok(self.inodes.found(path, &stat, &self.inodes.root.origin, Forbids::default()))
    }

    /// Closes all descriptors that nobody uses.
    fn evict_all(&self) {
        for _ in 0..=2 * self.inodes.len() / EVICTED_AT_ONCE + 2 {
            self.inodes.evict();
        }
    }

    fn is_open(&self, id: u64) -> bool {
        self.inodes.table().known.get(&id).is_some_and(Known::is_open)
    }
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

fn errno<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

#[test]
fn an_inode_goes_when_it_is_forgotten_as_often_as_found() {
    let bench = Bench::new();
    fs::write(bench.path("a"), "a").unwrap();
    let (first, again) = (bench.find("a").unwrap(), bench.find("a").unwrap());
    assert!(Arc::ptr_eq(&first, &again));
    assert!(bench.inodes.forget(first.id, 1).is_none());
    assert!(bench.inodes.get(first.id).is_ok());
    assert!(bench.inodes.forget(first.id, 1).is_some());
    assert_eq!(errno(bench.inodes.get(first.id)), Some(libc::ESTALE));
    assert_ne!(bench.find("a").unwrap().generation, first.generation);
    assert_eq!(bench.inodes.len(), 1);
}

#[test]
fn p1_p4_many_inodes_are_known_with_few_descriptors() {
    let Some(bench) = Bench::evicting() else { return };
    let mut all = Vec::new();
    for at in 0..1_000 {
        let name = format!("{at}");
        match at % 4 {
            0 => fs::create_dir(bench.path(&name)).unwrap(),
            1 => std::os::unix::fs::symlink("nowhere", bench.path(&name)).unwrap(),
            2 => drop(std::os::unix::net::UnixListener::bind(bench.path(&name)).unwrap()),
            _ => fs::write(bench.path(&name), &name).unwrap(),
        }
        let inode = bench.find(&name).unwrap();
        all.push((name, inode.id, inode.generation, inode.kind));
        drop(inode);
        let most = bench.inodes.bound() + EVICTED_AT_ONCE;
        assert!(bench.inodes.open_count() <= most, "{at}: {}", bench.inodes.open_count());
    }
    let held = bench.inodes.get(all[3].1).unwrap();
    for (name, id, generation, kind) in &all {
        let inode = bench.inodes.get(*id).unwrap();
        let stat = rustix::fs::fstat(open(&bench.path(name)).unwrap()).unwrap();
        assert_eq!(Identity::of(&inode.stat().unwrap()), Identity::of(&stat), "{name}");
        assert_eq!((inode.generation, inode.kind), (*generation, *kind), "{name}");
    }
    assert!(bench.is_open(held.id), "it is in use");
    assert_eq!(bench.inodes.len(), 1_000);
    for (_, id, ..) in &all {
        bench.inodes.forget(*id, 1);
    }
    let table = bench.inodes.table();
    assert_eq!((table.known.len(), table.open_count), (0, 0));
}

#[test]
fn p2_a_file_without_a_name_keeps_its_descriptor() {
    let Some(bench) = Bench::evicting() else { return };
    fs::write(bench.path("a"), "a").unwrap();
    fs::create_dir(bench.path("d")).unwrap();
    let ids = ["a", "d"].map(|name| bench.find(name).unwrap().id);
    fs::remove_file(bench.path("a")).unwrap();
    fs::remove_dir(bench.path("d")).unwrap();
    bench.evict_all();
    for id in ids {
        assert!(bench.is_open(id) && bench.inodes.get(id).is_ok());
    }
}

#[test]
fn p3_a_number_that_is_used_again_is_that_of_another_file() {
    let Some(bench) = Bench::evicting() else { return };
    fs::write(bench.path("old"), "old").unwrap();
    let old = bench.find("old").unwrap();
    let (id, number, generation) = (old.id, old.number, old.generation);
    let handle = Handle::of(old.path.as_fd()).unwrap();
    drop(old);
    bench.evict_all();
    assert!(!bench.is_open(id));
    fs::remove_file(bench.path("old")).unwrap();
    assert_eq!(errno(bench.inodes.get(id)), Some(libc::ESTALE));
    let reused = (0..2_000).find(|at| {
        let name = format!("new{at}");
        fs::write(bench.path(&name), "new").unwrap();
        let stat = rustix::fs::fstat(open(&bench.path(&name)).unwrap()).unwrap();
        stat.st_ino == number
    });
    let Some(at) = reused else {
        eprintln!("skipped: the file system uses no number again");
        return;
    };
    // The kernel knows the old one still, and asks for it by number.
    assert_eq!(errno(bench.inodes.get(id)), Some(libc::ESTALE));
    let new = bench.find(&format!("new{at}")).unwrap();
    assert_eq!((new.shown, new.number), (id, number));
    assert_ne!(new.generation, generation);
    assert_ne!(Handle::of(new.path.as_fd()).unwrap(), handle);
    // A request for the old one, under way since before, does not meet the new one.
    assert_eq!(errno(bench.inodes.get(id)), Some(libc::ESTALE));
    let is_new = |inode: &Arc<Inode>| inode.id == new.id && inode.generation == new.generation;
    assert!(is_new(&bench.inodes.get(new.id).unwrap()));
    assert!(is_new(&bench.find(&format!("new{at}")).unwrap()));
    // The old one is forgotten: the new one keeps the number that it has.
    assert!(bench.inodes.forget(id, 1).is_none());
    assert!(is_new(&bench.find(&format!("new{at}")).unwrap()));
    assert!(bench.inodes.forget(new.id, 3).is_some());
    assert_eq!(bench.inodes.len(), 0);
    assert_eq!(bench.find(&format!("new{at}")).unwrap().id, id);
}

/// Something that happens to the files of a directory, by the number of a name.
#[derive(Clone, Copy, Debug)]
enum Step {
    Create(usize),
    Remove(usize),
    Rename(usize, usize),
    Link(usize, usize),
    Find(usize),
    Get(usize),
    Hold(usize),
    Release,
    Forget(usize),
    Evict,
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..24_usize;
    prop_oneof![
        4 => name().prop_map(Step::Create),
        3 => name().prop_map(Step::Remove),
        1 => (name(), name()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => (name(), name()).prop_map(|(from, to)| Step::Link(from, to)),
        5 => name().prop_map(Step::Find),
        4 => name().prop_map(Step::Get),
        1 => name().prop_map(Step::Hold),
        1 => Just(Step::Release),
        1 => name().prop_map(Step::Forget),
        4 => Just(Step::Evict),
    ]
}

/// A file that the kernel was told of: its number and generation there, and which file it was.
type Told = (u64, u64, u64);

/// Carries a step out, and checks what comes of it against the files themselves. Each file has a
/// serial number for its content.
fn check(bench: &Bench, steps: &[Step]) {
    let (mut serial, mut held) = (0_u64, Vec::new());
    let mut told: HashMap<usize, Told> = HashMap::new();
    let content = |inode: &Inode| {
        let read = inode.reopen(OFlags::RDONLY).and_then(io::read_to_string);
        read.unwrap().parse::<u64>().unwrap()
    };
    for step in steps {
        let path = |at: usize| bench.path(&at.to_string());
        match *step {
            Step::Create(at) => {
                serial += 1;
                if let Ok(mut file) = fs::File::create_new(path(at)) {
                    io::Write::write_all(&mut file, serial.to_string().as_bytes()).unwrap();
                }
            }
            Step::Remove(at) => drop(fs::remove_file(path(at))),
            Step::Rename(from, to) => drop(fs::rename(path(from), path(to))),
            Step::Link(from, to) => drop(fs::hard_link(path(from), path(to))),
            Step::Find(at) => {
                let Ok(inode) = bench.find(&at.to_string()) else { continue };
                let is = content(&inode);
                assert_eq!(is.to_string(), fs::read_to_string(path(at)).unwrap());
                for (id, generation, was) in told.values() {
                    let known_as = (*id, *generation) == (inode.id, inode.generation);
                    // A file that was forgotten in between has a new generation.
                    assert!(!known_as || *was == is, "two files as one: {was} and {is}");
                }
                told.insert(at, (inode.id, inode.generation, is));
            }
            Step::Get(at) | Step::Hold(at) => {
                let Some((id, generation, was)) = told.get(&at) else { continue };
                match bench.inodes.get(*id) {
                    Ok(inode) if inode.generation == *generation => {
                        assert_eq!(content(&inode), *was);
                        if matches!(step, Step::Hold(_)) {
                            held.push((inode, *was));
                        }
                    }
                    Ok(_) => panic!("another file by the number of {was}"),
                    Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ESTALE)),
                }
            }
            Step::Release => drop(held.pop()),
            Step::Forget(at) => {
                if let Some((id, ..)) = told.remove(&at) {
                    bench.inodes.forget(id, 1);
                }
            }
            Step::Evict => bench.evict_all(),
        }
        for (inode, was) in &held {
            assert_eq!(content(inode), *was, "it is in use");
        }
        let table = bench.inodes.table();
        let open = table.known.values().filter(|one| one.is_open()).count();
        assert_eq!(open, table.open_count);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_known_file_is_itself_or_gone(steps in proptest::collection::vec(step(), 1..120)) {
        if let Some(bench) = Bench::evicting() {
            check(&bench, &steps);
        }
    }
}
