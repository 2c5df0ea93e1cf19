//! Random operations on a file of a mount and on a plain one beside it: the same results.

use crate::{Mounted, emulate};
use iopace_core::engine::Control;
use iopace_core::sched;
use iopace_core::units::Bytes;
use iopace_suites::random::Random;
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, fallocate};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::{null_mut, slice_from_raw_parts_mut};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// No file becomes longer.
const SIZE_MAX: u64 = 3 << 20;

/// Length and offset of direct transfers.
const BLOCK: u64 = 4096;

#[repr(align(4096))]
struct Block([u8; 16 * BLOCK as usize]);

/// One file, open in three ways.
struct Under {
    buffered: File,
    appending: File,
    direct: Option<File>,
    /// Another file, to copy from and to.
    other: File,
}

impl Under {
    fn open(folder: &Path, may_direct: bool) -> Under {
        let open = |name: &str, flags: OFlags| {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false);
            options.custom_flags(flags.bits().cast_signed()).open(folder.join(name))
        };
        Under {
            buffered: open("file", OFlags::empty()).expect("opens"),
            appending: open("file", OFlags::APPEND).expect("opens"),
            direct: open("file", OFlags::DIRECT).ok().filter(|_| may_direct),
            other: open("other", OFlags::empty()).expect("opens"),
        }
    }
}

/// One operation.
#[derive(Clone, Copy, Debug)]
enum Step {
    Read(u64, u64),
    Write(u64, u64, u8),
    Append(u64, u8),
    ReadDirect(u64, u64),
    WriteDirect(u64, u64, u8),
    Store(u64, u64, u8),
    Load(u64, u64),
    Resize(u64),
    Punch(u64, u64),
    Allocate(u64, u64),
    CopyOut(u64, u64, u64),
    CopyIn(u64, u64, u64),
    Sync(bool),
    Seek(u64),
    Size,
}

impl Step {
    fn random(random: &mut Random) -> Step {
        let offset = random.below(SIZE_MAX - (1 << 20));
        let len = match random.below(3) {
            0 => random.below(1 << 20),
            1 => random.below(20_000),
            _ => random.below(200),
        } + 1;
        let byte = random.below(255) as u8 + 1;
        let (from, blocks) = (offset / BLOCK * BLOCK, (random.below(16) + 1) * BLOCK);
        match random.below(30) {
            0..5 => Step::Read(offset, len),
            5..10 => Step::Write(offset, len, byte),
            10..12 => Step::Append(len.min(30_000), byte),
            12..14 => Step::ReadDirect(from, blocks),
            14..17 => Step::WriteDirect(from, blocks, byte),
            17..20 => Step::Store(offset, len.min(100_000), byte),
            20..22 => Step::Load(offset, len),
            22 => Step::Resize(random.below(SIZE_MAX)),
            23 => Step::Punch(offset, len),
            24 => Step::Allocate(offset, len),
            25 => Step::CopyOut(offset, random.below(SIZE_MAX), len),
            26 => Step::CopyIn(offset, random.below(SIZE_MAX), len),
            27 => Step::Sync(random.below(2) == 0),
            28 => Step::Seek(offset),
            _ => Step::Size,
        }
    }

    /// What it gives: a number, data, or an error number.
    fn run(self, on: &Under) -> io::Result<(u64, Vec<u8>)> {
        let number = |number: usize| (number as u64, Vec::new());
        match self {
            Step::Read(offset, len) => {
                let mut data = vec![0; len as usize];
                let count = read(&on.buffered, &mut data, offset)?;
                data.truncate(count);
                Ok((0, data))
            }
            Step::Write(offset, len, byte) => {
                on.buffered.write_all_at(&pattern(len, byte), offset).map(|()| (0, Vec::new()))
            }
            Step::Append(len, byte) => {
                if on.buffered.metadata()?.len() + len > SIZE_MAX {
                    return Ok((0, Vec::new()));
                }
                Ok(number(rustix::io::write(&on.appending, &pattern(len, byte))?))
            }
            Step::ReadDirect(offset, len) => {
                let Some(file) = &on.direct else { return Ok((0, Vec::new())) };
                let mut block = Box::new(Block([0; 16 * BLOCK as usize]));
                let data = &mut block.0[..len as usize];
                let count = file.read_at(data, offset)?;
                Ok((0, data[..count].to_vec()))
            }
            Step::WriteDirect(offset, len, byte) => {
                let Some(file) = &on.direct else { return Ok((0, Vec::new())) };
                let block = Box::new(Block([byte; 16 * BLOCK as usize]));
                Ok(number(file.write_at(&block.0[..len as usize], offset)?))
            }
            Step::Store(offset, len, byte) => mapped(&on.buffered, offset, len, |data| {
                data.fill(byte);
                Vec::new()
            }),
            Step::Load(offset, len) => mapped(&on.buffered, offset, len, |data| data.to_vec()),
            Step::Resize(size) => on.buffered.set_len(size).map(|()| (0, Vec::new())),
            Step::Punch(offset, len) => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(&on.buffered, flags, offset, len)?;
                Ok((0, Vec::new()))
            }
            Step::Allocate(offset, len) => {
                fallocate(&on.buffered, FallocateFlags::empty(), offset, len)?;
                Ok((0, Vec::new()))
            }
            Step::CopyOut(from, to, len) => copy((&on.buffered, from), (&on.other, to), len),
            Step::CopyIn(from, to, len) => copy((&on.other, from), (&on.buffered, to), len),
            Step::Sync(data_only) => {
                let synced =
                    if data_only { on.buffered.sync_data() } else { on.buffered.sync_all() };
                synced.map(|()| (0, Vec::new()))
            }
            Step::Seek(offset) => Ok((u64::from(finds_data(&on.buffered, offset)?), Vec::new())),
            Step::Size => Ok((on.buffered.metadata()?.len(), Vec::new())),
        }
    }
}

/// Where holes are is the file system's choice; whether there is data before the end is not.
fn finds_data(file: &File, offset: u64) -> io::Result<bool> {
    let size = file.metadata()?.len();
    let found = rustix::fs::seek(file, SeekFrom::Data(offset));
    Ok(found.is_ok_and(|at| at >= offset && at < size))
}

/// All of it, unless the file ends.
fn read(file: &File, data: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < data.len() {
        match file.read_at(&mut data[done..], offset + done as u64)? {
            0 => break,
            count => done += count,
        }
    }
    Ok(done)
}

fn pattern(len: u64, byte: u8) -> Vec<u8> {
    (0..len).map(|at| byte.wrapping_add((at / 512) as u8)).collect()
}

/// Works on a shared mapping of a piece of a file that lies within it.
fn mapped(
    file: &File,
    offset: u64,
    len: u64,
    work: impl FnOnce(&mut [u8]) -> Vec<u8>,
) -> io::Result<(u64, Vec<u8>)> {
    if offset + len > file.metadata()?.len() {
        return Ok((0, Vec::new()));
    }
    let base = offset / BLOCK * BLOCK;
    let size = (offset + len - base) as usize;
    let protect = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping of pages that the file has; nobody makes the file shorter before it is
    // unmapped, and nobody else in this process uses the memory.
    unsafe {
        let map = mmap(null_mut(), size, protect, MapFlags::SHARED, file, base)?;
        let all = &mut *slice_from_raw_parts_mut(map.cast::<u8>(), size);
        let data = work(&mut all[(offset - base) as usize..]);
        let synced = msync(map, size, MsyncFlags::SYNC);
        munmap(map, size)?;
        synced?;
        Ok((0, data))
    }
}

fn copy(from: (&File, u64), to: (&File, u64), len: u64) -> io::Result<(u64, Vec<u8>)> {
    let (mut start, mut at, mut done) = (from.1, to.1, 0);
    let len = len.min(SIZE_MAX - at);
    while done < len {
        let (left, start, at) = ((len - done) as usize, Some(&mut start), Some(&mut at));
        match rustix::fs::copy_file_range(from.0, start, to.0, at, left)? {
            0 => break,
            count => done += count as u64,
        }
    }
    Ok((done, Vec::new()))
}

/// Does the same here and there; everything else is exchanged meanwhile.
fn compare(seed: u64, steps: u64, change: impl FnOnce(&mut iopace_daemon::config::MountConfig)) {
    let Some(mounted) = Mounted::over(
        |_| {},
        |config| {
            config.memory_max = Bytes::from_kib(256);
            let mount = &mut config.mounts[0];
            mount.device.dirty_limit = Some(Bytes::from_mib(1));
            change(mount);
        },
    ) else {
        return;
    };
    let plain = mounted.folder.path().join("plain");
    std::fs::create_dir(&plain).expect("made");
    let plain = Under::open(&plain, true);
    let ours = Under::open(&mounted.at(""), plain.direct.is_some());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| exchange(&mounted, seed, &is_over));
        let ended = EndOnDrop(&is_over);
        let mut random = Random(seed);
        let mut done = Vec::new();
        for number in 0..steps {
            let step = Step::random(&mut random);
            done.push(step);
            let (here, there) = (step.run(&ours), step.run(&plain));
            let shown =
                |result: io::Result<(u64, Vec<u8>)>| result.map_err(|error| error.raw_os_error());
            let (here, there) = (shown(here), shown(there));
            if here != there {
                let recent = &done[done.len().saturating_sub(8)..];
                let brief = |r: &Result<(u64, Vec<u8>), Option<i32>>| {
                    r.as_ref().map(|(number, data)| (*number, data.len())).map_err(|e| *e)
                };
                let differs = here
                    .iter()
                    .zip(&there)
                    .find_map(|(a, b)| a.1.iter().zip(&b.1).position(|(a, b)| a != b));
                panic!(
                    "seed {seed}, step {number}: {:?} instead of {:?}, first difference at \
                     {differs:?}, after {recent:?}",
                    brief(&here),
                    brief(&there)
                );
            }
        }
        drop(ended);
    });
    let whole = |file: &File| {
        let mut data = vec![0; SIZE_MAX as usize + (1 << 20)];
        let count = read(file, &mut data, 0).expect("read");
        data.truncate(count);
        data
    };
    assert!(whole(&ours.buffered) == whole(&plain.buffered), "seed {seed}: the file");
    assert!(whole(&ours.other) == whole(&plain.other), "seed {seed}: the other file");
    let below = File::open(mounted.below("file")).expect("opens");
    assert!(whole(&below) == whole(&plain.buffered), "seed {seed}: the file below");
}

struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Exchanges schedulers and moves this process between groups until it is over.
fn exchange(mounted: &Mounted, seed: u64, is_over: &AtomicBool) {
    let mut random = Random(seed);
    mounted.limit("/limited", "wiops=2000 riops=2000");
    mounted.daemon().groups().create("/free", false).expect("made");
    while !is_over.load(Relaxed) {
        let to = sched::REGISTRY[random.below(sched::REGISTRY.len() as u64) as usize];
        let device = mounted.device();
        let control = if device.status().engine.inserted {
            Control::Configure(Some(to), to.defaults().changes())
        } else {
            Control::Insert(to, to.defaults())
        };
        device.control(control).expect("a legal change");
        let group = ["/free", "/limited"][random.below(2) as usize];
        mounted.daemon().groups().move_process(std::process::id(), group).expect("it runs");
        // SLEEP: the load between two changes of settings.
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_mount_does_as_a_plain_directory_does() {
    for seed in 1..=4 {
        compare(seed, 400, |_| {});
    }
}

#[test]
fn an_emulated_mount_does_as_a_plain_directory_does() {
    compare(5, 400, |mount| emulate(mount, "null"));
    compare(6, 150, |mount| emulate(mount, "ssd-nvme"));
}
