//! The load generator for mounts: a scratch file that is read and written around the kernel's page
//! cache, a request under way for each thread.

use super::load::{Work, pattern};
use super::tally::{Tally, Times};
use super::target::failed;
use crate::output::Failure;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

/// Smallest request around the page cache on all file systems.
pub const BLOCK_MIN: u32 = 4096;

/// Most threads.
pub const THREADS_MAX: usize = 16;

/// Size of the file. It has no content: what a limit counts is asked for, not found.
const SIZE: u64 = 64 << 20;

/// What memory for requests around the page cache is aligned to.
const ALIGN: usize = 4096;

/// Begin of the names of scratch files.
pub const PREFIX: &str = ".iopace-verify-";

/// A scratch file; removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    file: tempfile::NamedTempFile,
}

impl Scratch {
    /// Makes it in a directory.
    ///
    /// # Errors
    /// It cannot be made there, or not be read around the page cache.
    pub fn make(directory: &Path) -> Result<Scratch, Failure> {
        let fail = |what: &str, error: io::Error| {
            failed(format!("{}: a scratch file cannot be {what}: {error}", directory.display()))
        };
        let file = tempfile::Builder::new().prefix(PREFIX).tempfile_in(directory);
        let file = file.map_err(|error| fail("made there", error))?;
        file.as_file().set_len(SIZE).map_err(|error| fail("made larger", error))?;
        let scratch = Scratch { file };
        // The daemon hears of us.
        let direct = open(scratch.path()).map_err(|error| fail("opened for direct I/O", error))?;
        let mut buffer = Buffer::new(BLOCK_MIN as usize);
        direct.read_exact_at(buffer.bytes(), 0).map_err(|error| fail("read", error))?;
        Ok(scratch)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.file.path()
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECT.bits().cast_signed();
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

/// Aligned memory.
struct Buffer {
    bytes: Vec<u8>,
    from: usize,
    len: usize,
}

impl Buffer {
    fn new(len: usize) -> Buffer {
        let bytes = pattern(len + ALIGN);
        let from = bytes.as_ptr().align_offset(ALIGN);
        Buffer { bytes, from, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..self.from + self.len]
    }
}

/// Works until the end, or until `stop` is set.
///
/// # Errors
/// A read or a write failed.
pub fn drive(path: &Path, work: &Work, times: Times, stop: &AtomicBool) -> Result<Tally, Failure> {
    let file = open(path).map_err(failed)?;
    let threads = work.depth.min(THREADS_MAX);
    let tallies: io::Result<Vec<Tally>> = thread::scope(|scope| {
        let run = |first: usize| {
            let (file, numbers) = (&file, (first as u64..).step_by(threads));
            scope.spawn(move || one_thread(file, work, times, stop, numbers))
        };
        let running: Vec<_> = (0..threads).map(run).collect();
        let ended = running.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
        });
        ended.collect()
    });
    let mut all = Tally::new(times);
    let tallies = tallies.map_err(|error| failed(format!("{}: {error}", path.display())))?;
    tallies.iter().for_each(|tally| all.merge(tally));
    Ok(all)
}

fn one_thread(
    file: &File,
    work: &Work,
    times: Times,
    stop: &AtomicBool,
    numbers: impl Iterator<Item = u64>,
) -> io::Result<Tally> {
    let mut tally = Tally::new(times);
    let mut buffer = Buffer::new(work.block as usize);
    for number in numbers {
        let submitted = Instant::now();
        if submitted >= times.end || stop.load(Relaxed) {
            break;
        }
        let offset = work.offset(number, SIZE);
        if work.direction.writes(number) {
            file.write_all_at(buffer.bytes(), offset)?;
        } else {
            file.read_exact_at(buffer.bytes(), offset)?;
        }
        let now = Instant::now();
        tally.record(now, u64::from(work.block), now - submitted);
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned() {
        for len in [512, 4096, 1 << 20] {
            let mut buffer = Buffer::new(len);
            let bytes = buffer.bytes();
            assert_eq!((bytes.len(), bytes.as_ptr().align_offset(ALIGN)), (len, 0));
        }
    }
}
