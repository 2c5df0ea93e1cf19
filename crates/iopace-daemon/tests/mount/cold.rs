//! What is read over the directory itself, where the kernel's cache above keeps it.

use super::Mounted;
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::fs;
use std::io::IoSliceMut;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

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

/// Whether the page there is in the cache below; asking may have it read.
fn is_cached(file: &fs::File, offset: u64) -> bool {
    let mut page = [0; 4096];
    let answer = preadv2(file, &mut [IoSliceMut::new(&mut page)], offset, ReadWriteFlags::NOWAIT);
    answer != Err(Errno::AGAIN)
}

#[test]
fn one_copy_of_what_is_read_is_enough() {
    let Some((mounted, name, below)) = over_itself() else { return };
    if is_cached(&below, 6 << 20) {
        println!("skipped: the file system keeps what is not needed");
        return;
    }
    fadvise(&below, 0, None, Advice::DontNeed).expect("advised");
    assert!(fs::read(&name).expect("read") == content());
    let asked = mounted.device().status().stats.read.bytes.get();
    assert!((SIZE as u64..SIZE as u64 + 4096).contains(&asked), "all of it, once: {asked}");
    assert!(!is_cached(&below, 4 << 20), "the cache above has it");
    assert!(fs::read(&name).expect("read") == content());
    assert_eq!(mounted.device().status().stats.read.bytes.get(), asked, "nothing more");
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
