//! Random operations on one file, on the mount and on a plain file: the same results throughout.

use super::Mounted;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rustix::fs::FallocateFlags;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Files grow to this size.
const SIZE_MAX: u64 = 200_000;

#[derive(Clone, Debug)]
enum Step {
    Write { offset: u64, len: u64, fill: u8 },
    Append { len: u64, fill: u8 },
    Read { offset: u64, len: u64 },
    Truncate { size: u64 },
    Punch { offset: u64, len: u64 },
    Zero { offset: u64, len: u64 },
    Allocate { offset: u64, len: u64, keep: bool },
    Copy { source: u64, to: u64, len: u64 },
    ReadMapped { offset: u64, len: u64 },
    WriteMapped { offset: u64, len: u64, fill: u8 },
    Reopen { direct: bool },
    Sync,
    SeekHole { offset: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let place = || (0..SIZE_MAX / 2, 1..SIZE_MAX / 3);
    prop_oneof![
        4 => (place(), any::<u8>())
            .prop_map(|((offset, len), fill)| Step::Write { offset, len, fill }),
        2 => (1..9_000u64, any::<u8>()).prop_map(|(len, fill)| Step::Append { len, fill }),
        3 => place().prop_map(|(offset, len)| Step::Read { offset, len }),
        1 => (0..SIZE_MAX).prop_map(|size| Step::Truncate { size }),
        1 => place().prop_map(|(offset, len)| Step::Punch { offset, len }),
        1 => place().prop_map(|(offset, len)| Step::Zero { offset, len }),
        1 => (place(), any::<bool>())
            .prop_map(|((offset, len), keep)| Step::Allocate { offset, len, keep }),
        2 => (place(), 0..SIZE_MAX).prop_map(|((source, len), to)| Step::Copy { source, to, len }),
        2 => place().prop_map(|(offset, len)| Step::ReadMapped { offset, len }),
        2 => (place(), any::<u8>())
            .prop_map(|((offset, len), fill)| Step::WriteMapped { offset, len, fill }),
        1 => any::<bool>().prop_map(|direct| Step::Reopen { direct }),
        1 => Just(Step::Sync),
        1 => (0..SIZE_MAX).prop_map(|offset| Step::SeekHole { offset }),
    ]
}

/// One of the two files.
struct Subject {
    path: PathBuf,
    file: File,
    direct: bool,
}

impl Subject {
    fn new(folder: &Path) -> Subject {
        let path = folder.join("file");
        let _ = std::fs::remove_file(&path);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        Subject { path, file, direct: false }
    }

    /// Takes one step; the bytes read, or what the step says.
    fn take(&mut self, step: &Step) -> io::Result<Vec<u8>> {
        let keep = FallocateFlags::KEEP_SIZE;
        match *step {
            // A file that is open for direct I/O takes whole blocks only.
            Step::Write { .. } | Step::Read { .. } | Step::Append { .. } if self.direct => {
                self.reopen(false)?;
                return self.take(step);
            }
            Step::Write { offset, len, fill } => {
                self.file.write_all_at(&vec![fill; len as usize], offset)?;
            }
            Step::Append { len, fill } => {
                let file = OpenOptions::new().append(true).open(&self.path)?;
                io::Write::write_all(&mut &file, &vec![fill; len as usize])?;
            }
            Step::Read { offset, len } => return self.read(offset, len),
            Step::Truncate { size } => self.file.set_len(size)?,
            Step::Punch { offset, len } => {
                let flags = FallocateFlags::PUNCH_HOLE | keep;
                rustix::fs::fallocate(&self.file, flags, offset, len)?;
            }
            Step::Zero { offset, len } => {
                rustix::fs::fallocate(&self.file, FallocateFlags::ZERO_RANGE, offset, len)?;
            }
            Step::Allocate { offset, len, keep: kept } => {
                let flags = if kept { keep } else { FallocateFlags::empty() };
                rustix::fs::fallocate(&self.file, flags, offset, len)?;
            }
            Step::Copy { source, to, len } => return self.copy(source, to, len),
            Step::ReadMapped { offset, len } => return self.mapped(offset, len, None),
            Step::WriteMapped { offset, len, fill } => {
                return self.mapped(offset, len, Some(fill));
            }
            Step::Reopen { direct } => self.reopen(direct)?,
            Step::Sync => self.file.sync_all()?,
            Step::SeekHole { offset } => {
                let hole = rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Hole(offset))?;
                // Where holes begin is the business of the file system; that there is one is not.
                return Ok(vec![u8::from(hole >= offset)]);
            }
        }
        Ok(Vec::new())
    }

    fn reopen(&mut self, direct: bool) -> io::Result<()> {
        let flags = if direct { libc::O_DIRECT } else { 0 };
        let mut options = OpenOptions::new();
        self.file = options.read(true).write(true).custom_flags(flags).open(&self.path)?;
        self.direct = direct;
        Ok(())
    }

    fn read(&self, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        let mut data = vec![0; len as usize];
        let read = self.file.read_at(&mut data, offset)?;
        data.truncate(read);
        Ok(data)
    }

    fn copy(&self, mut source: u64, mut to: u64, len: u64) -> io::Result<Vec<u8>> {
        let len = len as usize;
        let file = &self.file;
        let done = rustix::fs::copy_file_range(file, Some(&mut source), file, Some(&mut to), len)?;
        Ok(done.to_le_bytes().to_vec())
    }

    /// Reads, and writes if told to, through a mapping of what is there.
    fn mapped(&self, offset: u64, len: u64, fill: Option<u8>) -> io::Result<Vec<u8>> {
        let end = (offset + len).min(self.file.metadata()?.len());
        if offset >= end {
            return Ok(Vec::new());
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the mapping is of the file's size, which nobody changes meanwhile, is used only
        // here and is unmapped at the end.
        unsafe {
            let start = rustix::mm::mmap(
                std::ptr::null_mut(),
                end as usize,
                protection,
                MapFlags::SHARED,
                &self.file,
                0,
            )?;
            let all = std::slice::from_raw_parts_mut(start.cast::<u8>(), end as usize);
            let seen = all[offset as usize..].to_vec();
            if let Some(fill) = fill {
                all[offset as usize..].fill(fill);
                rustix::mm::msync(start, end as usize, MsyncFlags::SYNC)?;
            }
            rustix::mm::munmap(start, end as usize)?;
            Ok(seen)
        }
    }
}

fn run(mounted: &Mounted, cases: u32) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let steps = proptest::collection::vec(step(), 1..60);
    let result = TestRunner::new_with_rng(config, rng).run(&steps, |steps| {
        let mut files = [&mounted.mount, &mounted.plain].map(|folder| Subject::new(folder));
        for (at, step) in steps.iter().enumerate() {
            let said =
                files.each_mut().map(|file| file.take(step).map_err(|error| error.raw_os_error()));
            prop_assert!(said[0] == said[1], "step {at} {step:?}: {:?}", said.map(|s| s.err()));
        }
        let [through, below, plain] = [&mounted.mount, &mounted.below, &mounted.plain]
            .map(|folder| std::fs::read(folder.join("file")).unwrap());
        prop_assert!(through == plain, "through the mount: {} {}", through.len(), plain.len());
        prop_assert!(below == plain, "below the mount");
        Ok(())
    });
    result.unwrap();
}

#[test]
fn random_operations_do_the_same_elsewhere() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    run(&mounted, 24);
}

#[test]
fn random_operations_do_the_same_over_the_directory_itself() {
    let Some(mounted) = Mounted::over_itself() else { return };
    run(&mounted, 24);
}
