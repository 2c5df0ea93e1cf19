//! What the kernel has of a file in memory, and whether it takes pages by itself.

use rustix::fs::{Advice, fadvise};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs;
use std::ptr::null_mut;
use std::thread;
use std::time::Duration;

const PAGE: usize = 4096;

/// Which pages of a file are cached, in order. Whoever asked by a read that waits for nothing would
/// have them read, and on a busy machine find them.
pub fn cached(file: &fs::File) -> Vec<usize> {
    let len = file.metadata().expect("its size").len() as usize;
    let mut are_there = vec![0; len.div_ceil(PAGE)];
    // SAFETY: a new mapping of what the file has, which nobody touches; of the three calls only the
    // second writes, one byte for each page.
    unsafe {
        let pages = mmap(null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, 0);
        let pages = pages.expect("mapped");
        assert_eq!(libc::mincore(pages, len, are_there.as_mut_ptr()), 0);
        munmap(pages, len).expect("unmapped");
    }
    (0..).zip(are_there).filter(|(_, is_there)| is_there & 1 == 1).map(|(page, _)| page).collect()
}

/// Has nothing of a durable file cached; whether that is so, as some file systems keep all. What
/// another processor is about to put into its lists stays for a moment.
pub fn evict(file: &fs::File) -> bool {
    (0..100).any(|_| {
        fadvise(file, 0, None, Advice::DontNeed).expect("advised");
        // SLEEP: a page in a list of another processor goes by itself; looked at 100 times.
        thread::sleep(Duration::from_millis(1));
        cached(file).is_empty()
    })
}

/// How many bytes were read again, since the machine was started, that the kernel had taken from
/// its cache by itself, without need as well (DAMON). What is given up for another reason (an open
/// that keeps no cache, a call) is not among them.
pub fn brought_back() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").expect("procfs");
    let count = text.lines().find_map(|line| line.strip_prefix("workingset_refault_file "));
    count.map_or(0, |count| count.parse::<u64>().expect("a number") * PAGE as u64)
}
