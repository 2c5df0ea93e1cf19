//! What is read over the directory itself, where the kernel's cache above keeps it.

use super::Mounted;
use super::pages::{brought_back, cached, evict};
use rustix::fs::{Advice, fadvise};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Not a whole number of pages, let alone of requests.
const SIZE: usize = (8 << 20) + 5000;

/// The most that the kernel asks a mount for at once.
const REQUEST_MAX: usize = 1 << 20;

fn content() -> Vec<u8> {
    (0..SIZE).map(|at| (at / 7 + at / 4096) as u8).collect()
}

/// A mount over the directory itself, with a file that is not cached: its name, and opened below.
fn over_itself() -> Option<(Mounted, PathBuf, fs::File)> {
    let mut below = None;
    let prepare = |folder: &std::path::Path| {
        let path = folder.join("cold");
        fs::write(&path, content()).expect("written");
        let file = fs::File::open(path).expect("opened");
        file.sync_all().expect("durable");
        evict(&file);
        fadvise(&file, 0, None, Advice::Random).expect("advised");
        below = Some(file);
    };
    let mounted = Mounted::over(prepare, |config| config.mounts[0].mountpoint = None)?;
    let name = mounted.below("cold");
    Some((mounted, name, below.expect("prepared")))
}

/// How much more than all is asked for when a cold file is read twice; how much the kernel has had
/// read again meanwhile, since it had taken it by itself.
fn read_twice() -> Option<(u64, u64)> {
    let (mounted, name, below) = over_itself()?;
    if !cached(&below).is_empty() {
        println!("skipped: the file system keeps what is not needed");
        return None;
    }
    let seen = || (mounted.device().status().stats.read.bytes.get(), brought_back());
    let before = seen();
    let read = || {
        assert!(fs::read(&name).expect("read") == content());
        let now = seen();
        (now.0 - before.0, now.1 - before.1)
    };
    let (first, _) = read();
    assert!(first >= SIZE as u64, "never less: {first}");
    // But for the end, which is no whole block: the request with it is read through the cache
    // below, and it begins where the kernel ended the one before.
    let kept = cached(&below);
    let last = (SIZE - REQUEST_MAX) / 4096;
    assert!(kept.iter().all(|page| *page >= last), "the cache above has it: {kept:?}");
    let (both, back) = read();
    // The last page is a part of one.
    let all = (SIZE as u64).next_multiple_of(4096);
    let more = (first.max(all) - all) + (both - first);
    Some((more, back))
}

#[test]
fn one_copy_of_what_is_read_is_enough() {
    // All of it, once, and the cache above has it. A kernel that takes pages from everybody now and
    // then, without need (DAMON_RECLAIM), may take some of these, and then it counts them.
    for _ in 0..8 {
        let Some((more, back)) = read_twice() else { return };
        if more == 0 {
            return;
        }
        assert!(more <= back, "{more} bytes are read twice, {back} were taken");
    }
    panic!("the kernel takes pages each time");
}

#[test]
fn what_is_dirty_below_is_read_as_it_was_written() {
    let Some((_mounted, name, _below)) = over_itself() else { return };
    let file = fs::File::options().read(true).write(true).open(&name).expect("opened");
    let mut expected = content();
    for (at, byte) in [(100, 1), (3 << 20, 2), ((5 << 20) - 1, 3), (SIZE - 10, 4)] {
        let piece = [byte; 10_000];
        file.write_all_at(&piece, at as u64).expect("written");
        expected.resize(expected.len().max(at + piece.len()), 0);
        expected[at..at + piece.len()].copy_from_slice(&piece);
        // The cache above is to ask below.
        fadvise(&file, 0, None, Advice::DontNeed).expect("advised");
        assert!(fs::read(&name).expect("read") == expected);
    }
}
