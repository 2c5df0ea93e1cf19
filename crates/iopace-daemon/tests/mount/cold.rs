//! What is read over the directory itself, where the kernel's cache above keeps it.

use super::Mounted;
use rustix::fs::{Advice, fadvise};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::ptr::null_mut;

/// Not a whole number of pages, let alone of requests.
const SIZE: usize = (8 << 20) + 5000;

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
        fadvise(&file, 0, None, Advice::DontNeed).expect("advised");
        fadvise(&file, 0, None, Advice::Random).expect("advised");
        below = Some(file);
    };
    let mounted = Mounted::over(prepare, |config| config.mounts[0].mountpoint = None)?;
    let name = mounted.below("cold");
    Some((mounted, name, below.expect("prepared")))
}

/// Whether the page there is in the cache below. Whoever asked by a read that waits for nothing
/// would have it read, and on a busy machine find it.
fn is_cached(file: &fs::File, offset: u64) -> bool {
    let mut is_there = [0];
    // SAFETY: a new mapping of a page that the file has, which nobody touches; of the three calls
    // only the second writes, one byte for its one page.
    unsafe {
        let page = mmap(null_mut(), 4096, ProtFlags::READ, MapFlags::SHARED, file, offset);
        let page = page.expect("mapped");
        assert_eq!(libc::mincore(page, 4096, is_there.as_mut_ptr()), 0);
        munmap(page, 4096).expect("unmapped");
    }
    is_there[0] & 1 == 1
}

/// Reads a cold file twice: how much of it was asked for the first time, and the second, and
/// whether the cache below has it then.
fn read_twice() -> Option<(u64, u64, bool)> {
    let (mounted, name, below) = over_itself()?;
    if is_cached(&below, 6 << 20) {
        println!("skipped: the file system keeps what is not needed");
        return None;
    }
    let asked = || mounted.device().status().stats.read.bytes.get();
    assert!(fs::read(&name).expect("read") == content());
    let first = asked();
    let is_below = is_cached(&below, 4 << 20);
    assert!(fs::read(&name).expect("read") == content());
    Some((first, asked() - first, is_below))
}

#[test]
fn one_copy_of_what_is_read_is_enough() {
    // All of it, once, and the cache above has it. A kernel that takes pages from everybody now and
    // then, without need (DAMON_RECLAIM), may have taken some of these.
    let (mut tries, all) = (Vec::new(), SIZE as u64..SIZE as u64 + 4096);
    for _ in 0..8 {
        let Some((first, second, is_below)) = read_twice() else { return };
        assert!(!is_below, "the cache above has it");
        assert!(first >= all.start, "never less: {first}");
        if all.contains(&first) && second == 0 {
            return;
        }
        tries.push((first, second));
    }
    panic!("all of it once, and nothing more: {tries:?}");
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
