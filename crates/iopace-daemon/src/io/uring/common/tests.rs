//! Requests of many threads in one ring: each is done once, whoever submits and whoever ends.

use super::*;
use crate::buffer::Buffer;
use crate::config::IoEngineChoice;
use crate::io::Disk;
use crate::io::file::File;
use iopace_core::group::Class;
use iopace_core::request::{Extent, RequestId};
use iopace_core::units::Bytes;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver, Sender};

const BLOCK: usize = 4096;

/// Passes completions on; as a device does, it may start another request with one that is done.
struct Done {
    sender: Mutex<Sender<IoDone>>,
    disk: OnceLock<Weak<Disk>>,
    /// Reads from this key on have another one after them.
    follows_from: usize,
}

impl Completions for Done {
    fn completed(&self, done: &mut Vec<IoDone>) {
        for one in done.drain(..) {
            let next = one.request.key.checked_sub(self.follows_from);
            self.sender.lock().expect("sound").send(one).expect("awaited");
            if let (Some(key), Some(disk)) = (next, self.disk.get().and_then(Weak::upgrade)) {
                disk.start_all(&mut vec![read(key, key % 64, BLOCK)]);
            }
        }
    }
}

struct Rig {
    disk: Arc<Disk>,
    _to: Arc<Done>,
    done: Receiver<IoDone>,
    file: tempfile::NamedTempFile,
}

impl Rig {
    /// A file of so many blocks, each full of its number, past the page cache. `None`, aloud, where
    /// the system does not allow that.
    fn new(blocks_count: usize, follows_from: usize) -> Option<Rig> {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        for number in 0..blocks_count {
            let at = (number * BLOCK) as u64;
            file.as_file().write_all_at(&[number as u8; BLOCK], at).expect("written");
        }
        file.as_file().sync_all().expect("synced");
        let (sender, done) = mpsc::channel();
        let (sender, disk) = (Mutex::new(sender), OnceLock::new());
        let to = Arc::new(Done { sender, disk, follows_from });
        let told: Weak<Done> = Arc::downgrade(&to);
        let Ok(direct) = File::open(file.path(), false, true) else {
            println!("skipped: no direct I/O on this file system");
            return None;
        };
        let Ok(disk) = Disk::start(Arc::new(direct), IoEngineChoice::Uring, told) else {
            println!("skipped: io_uring is not allowed here");
            return None;
        };
        let disk = Arc::new(disk);
        to.disk.set(Arc::downgrade(&disk)).expect("once");
        Some(Rig { disk, _to: to, done, file })
    }
}

fn request(op: Op, key: usize, block: usize, buffer: Buffer) -> IoRequest {
    let (offset, len) = (Bytes((block * BLOCK) as u64), Bytes(buffer.len() as u64));
    let extent = Extent::new(offset, len).expect("small");
    let (id, class) = (RequestId::forge(key as u64 + 1), Class::BestEffort);
    IoRequest { id, key, op, extent, fua: false, class, write_back: false, target: None, buffer }
}

fn read(key: usize, block: usize, len: usize) -> IoRequest {
    request(Op::Read, key, block, Buffer::new(len))
}

#[test]
fn requests_outlive_the_threads_that_submitted_them() {
    let Some(rig) = Rig::new(64, usize::MAX) else { return };
    for round in 0..20 {
        // Only a join waits until the kernel has no such thread any more.
        let starter = Arc::clone(&rig.disk);
        let starting = thread::spawn(move || {
            may_submit_from_here();
            let mut requests = (0..64).map(|key| read(key, key, BLOCK)).collect();
            starter.start_all(&mut requests);
        });
        starting.join().expect("started");
        let mut keys: Vec<usize> = (0..64)
            .map(|_| {
                let IoDone { request, result, .. } = rig.done.recv().expect("it comes back");
                result.expect("nobody has cancelled it");
                assert_eq!(request.buffer.as_slice(), [request.key as u8; BLOCK]);
                request.key
            })
            .collect();
        keys.sort_unstable();
        assert!(keys.into_iter().eq(0..64), "round {round}");
    }
}

#[test]
fn each_is_done_once_while_clients_and_the_reaper_submit() {
    let (threads, each) = (4, 300);
    let count = threads * each;
    // Each read from a client has one from the thread that learns of its end after it.
    let Some(rig) = Rig::new(64, count) else { return };
    thread::scope(|scope| {
        for thread in 0..threads {
            let disk = &rig.disk;
            scope.spawn(move || {
                may_submit_from_here();
                for number in 0..each {
                    let key = count + thread * each + number;
                    disk.start_all(&mut vec![read(key, key % 64, BLOCK)]);
                }
            });
        }
    });
    let mut keys: Vec<usize> = (0..2 * count)
        .map(|_| {
            let IoDone { request, result, .. } = rig.done.recv().expect("it comes back");
            result.expect("read");
            let number = request.extent.offset().get() as usize / BLOCK;
            assert_eq!(request.buffer.as_slice(), [number as u8; BLOCK]);
            request.key
        })
        .collect();
    keys.sort_unstable();
    assert!(keys.into_iter().eq(0..2 * count));
    assert!(rig.done.try_recv().is_err(), "nothing comes twice");
}

#[test]
fn writes_beside_reads_are_done_by_the_owner() {
    let Some(rig) = Rig::new(64, usize::MAX) else { return };
    may_submit_from_here();
    let mut requests = Vec::new();
    for key in 0..64 {
        let mut buffer = Buffer::new(BLOCK);
        buffer.as_mut_slice().fill(!key as u8);
        requests.push(request(Op::Write, key + 64, key + 64, buffer));
        requests.push(read(key, key, BLOCK));
    }
    rig.disk.start_all(&mut requests);
    assert!(requests.is_empty());
    let mut keys: Vec<usize> = (0..128)
        .map(|_| {
            let IoDone { request, result, .. } = rig.done.recv().expect("it comes back");
            result.expect("done");
            let is_read = request.op == Op::Read;
            assert!(!is_read || request.buffer.as_slice() == [request.key as u8; BLOCK]);
            request.key
        })
        .collect();
    keys.sort_unstable();
    assert!(keys.into_iter().eq(0..128));
    for key in 0..64 {
        let mut found = [0; BLOCK];
        rig.file.as_file().read_exact_at(&mut found, ((key + 64) * BLOCK) as u64).expect("read");
        assert_eq!(found, [!key as u8; BLOCK], "block {key}");
    }
}

#[test]
fn a_read_beyond_the_end_is_done_anew_and_ends_as_with_the_owner() {
    let Some(rig) = Rig::new(3, usize::MAX) else { return };
    let ends_early = || {
        rig.disk.start_all(&mut vec![read(0, 2, 2 * BLOCK)]);
        let IoDone { result, .. } = rig.done.recv().expect("it comes back");
        assert_eq!(result.map_err(|error| error.kind()), Err(io::ErrorKind::UnexpectedEof));
    };
    ends_early();
    may_submit_from_here();
    ends_early();
    // Then the next ones make a detour, and it is tried anew after those.
    for _ in 0..2 * DETOURS {
        rig.disk.start_all(&mut vec![read(1, 1, BLOCK)]);
        let IoDone { request, result, .. } = rig.done.recv().expect("it comes back");
        result.expect("read");
        assert_eq!(request.buffer.as_slice(), [1; BLOCK]);
    }
}

#[test]
fn so_many_make_a_detour() {
    let detours = Detours::default();
    assert!(!detours.take(1));
    detours.begin();
    let batches = [DETOURS as usize - 1, 5, 1].map(|count| detours.take(count));
    assert_eq!(batches, [true, true, false], "one batch has the last one in it");
}

#[test]
fn what_is_under_way_is_waited_for_at_the_end() {
    let Some(Rig { disk, _to, done, file: _file }) = Rig::new(64, usize::MAX) else { return };
    may_submit_from_here();
    let mut requests = (0..64).map(|key| read(key, key, BLOCK)).collect();
    disk.start_all(&mut requests);
    drop(Arc::into_inner(disk).expect("nobody else has it"));
    assert_eq!(done.try_iter().filter(|done| done.result.is_ok()).count(), 64);
}

#[test]
fn a_read_is_done_when_all_of_it_is_there_or_the_disk_has_failed() {
    let done = |result| ended(&read(0, 0, BLOCK), result).map(|ended| ended.is_ok());
    assert_eq!(done(BLOCK as i32), Some(true));
    assert_eq!(done(-libc::EIO), Some(false));
    for result in [0, 512, -libc::EAGAIN, -libc::EINTR, -libc::ECANCELED, -libc::EOPNOTSUPP] {
        assert_eq!(done(result), None, "{result}");
    }
}
