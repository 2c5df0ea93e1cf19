//! Every kind of device, without clients: the shell is the same for all of them.

use super::super::emulated::EmulatedDevice;
use super::super::file::FileDevice;
use super::super::{DeviceEvent, LoggedEvent};
use super::*;
use crate::answer::Progress;
use crate::buffer::Buffer;
use crate::config::{Backend as Kind, DeviceConfig, IoEngineChoice};
use crate::fuse::pending_replies::PendingReplies;
use iopace_core::pace::Budget;
use iopace_core::request::{Cover, Op, Space};
use iopace_fuse::Errno;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// An answer: the number of the request, and the error if there is one.
type Answer = (u64, Option<i32>);

const SIZE: u64 = 8 << 20;
const BLOCK: u64 = 4096;

/// The side that makes requests and has their answers.
struct Client {
    held: Arc<PendingReplies>,
    answers: (Sender<Answer>, Receiver<Answer>),
}

impl Client {
    fn new() -> Client {
        Client { held: Arc::default(), answers: channel() }
    }

    fn job(&self, number: u64, op: Op, (offset, len): (u64, u64)) -> Job {
        let answers = self.answers.0.clone();
        let answer = move |done: Result<(), Errno>| {
            answers.send((number, done.err().map(Errno::code))).expect("somebody wants to know");
        };
        let ticket = self.held.hold_operation((7, 0), Box::new(answer), (GroupId::ROOT, None));
        let mut buffer = Buffer::default();
        if op == Op::Write {
            buffer.resize(len as usize);
            buffer.as_mut_slice().fill(number as u8);
        }
        Job {
            task: TaskId(number % 3),
            group: GroupId::ROOT,
            op,
            extent: Extent::new(Bytes(offset), Bytes(len)).expect("small"),
            space: Space::DISK,
            cover: Cover::All,
            fua: false,
            buffer,
            target: None,
            progress: Progress::default(),
            ticket: Box::new(ticket.expect("it is held")),
        }
    }

    /// The answers to so many requests, in the order of their numbers; there are no more.
    fn answers(&self, count: usize) -> Vec<Answer> {
        let next = |_| self.answers.1.recv_timeout(Duration::from_secs(60)).expect("an answer");
        let mut all: Vec<_> = (0..count).map(next).collect();
        assert!(self.answers.1.try_recv().is_err(), "one answer each");
        all.sort_unstable();
        all
    }
}

/// A device of each kind with the file in which its data is.
fn devices(folder: &Path, timers: &Arc<Timers>) -> Vec<(Arc<dyn Device>, fs::File)> {
    let image = folder.join("disk.img");
    fs::File::create(&image).and_then(|file| file.set_len(SIZE)).expect("sparse");
    let config = DeviceConfig::new("file", Kind::Path(image.clone()));
    let file = FileDevice::open(&config, &image, IoEngineChoice::Threads, timers).expect("opens");
    let mut all: Vec<(Arc<dyn Device>, fs::File)> = vec![(file, opened(&image))];
    for (name, direct) in [("cached", false), ("direct", true)] {
        let store = folder.join(name);
        let (model, size, cache) = ("ssd-nvme".to_owned(), Some(Bytes(SIZE)), None);
        let backend = Kind::Emulated { model, store: Some(store.clone()), size, cache };
        let config = DeviceConfig { direct, ..DeviceConfig::new(name, backend) };
        all.push((EmulatedDevice::open(&config, timers).expect("opens"), opened(&store)));
    }
    all
}

fn opened(path: &Path) -> fs::File {
    fs::File::open(path).expect("it is there")
}

#[test]
fn every_request_of_every_device_is_answered_once_and_its_data_is_there() {
    let (folder, timers) = (tempfile::tempdir().expect("a folder"), Timers::start().expect("one"));
    for (device, file) in devices(folder.path(), &timers) {
        let (client, name) = (Client::new(), &device.info().name);
        let mut jobs = Vec::new();
        for number in 0..60 {
            let mut job = client.job(number, Op::Write, (number * 2 * BLOCK, BLOCK));
            job.fua = number % 7 == 0;
            jobs.push(job);
            if number % 4 == 0 {
                device.submit(&mut jobs);
            }
        }
        // In several portions, where writes are paced.
        jobs.push(client.job(60, Op::Write, (4 << 20, 3 << 20)));
        device.submit(&mut jobs);
        assert!(client.answers(61).iter().all(|(_, error)| error.is_none()), "{name}");
        for number in 61..70 {
            jobs.push(client.job(number, Op::Read, (number * BLOCK, 4 * BLOCK)));
        }
        jobs.push(client.job(70, Op::Flush, (0, 0)));
        device.submit(&mut jobs);
        let ends = client.answers(10);
        let all_well: Vec<_> = (61..71).map(|number| (number, None)).collect();
        assert_eq!(ends, all_well, "{name}");
        let mut back = vec![0; BLOCK as usize];
        for number in 0..60 {
            file.read_exact_at(&mut back, number * 2 * BLOCK).expect("read");
            assert!(back.iter().all(|byte| *byte == number as u8), "{name}: block {number}");
        }
        file.read_exact_at(&mut back, (7 << 20) - BLOCK).expect("read");
        assert!(back.iter().all(|byte| *byte == 60), "{name}: the long write");
        let status = device.status();
        let (submitted, finished) = status.engine.totals_count;
        assert_eq!((submitted, status.engine.paced_count), (finished, 0), "{name}");
        let buffered = if device.info().direct { 0 } else { 52 };
        assert_eq!(status.buffered_writes_count, buffered, "{name}");
        let dirty = status.memory.map(|memory| memory.dirty.device);
        assert_eq!(dirty, (buffered > 0).then_some(Bytes::ZERO), "{name}: after a flush");
    }
    timers.stop();
}

#[test]
fn what_is_cut_off_with_a_device_is_answered() {
    let (folder, timers) = (tempfile::tempdir().expect("a folder"), Timers::start().expect("one"));
    for (device, _) in devices(folder.path(), &timers) {
        let client = Client::new();
        let job =
            |number| Job { fua: true, ..client.job(number, Op::Write, (number * BLOCK, BLOCK)) };
        device.submit(&mut (0..20).map(job).collect());
        drop(device);
        let ends = client.answers(20);
        let is_known = |error: &Option<i32>| error.is_none_or(|errno| errno == libc::ENXIO);
        assert!(ends.iter().all(|(_, error)| is_known(error)), "{ends:?}");
    }
    timers.stop();
}

#[test]
fn a_write_at_once_is_the_callers_or_waits_as_a_request() {
    let (folder, timers) = (tempfile::tempdir().expect("a folder"), Timers::start().expect("one"));
    for (device, file) in devices(folder.path(), &timers) {
        let (client, is_real) = (Client::new(), device.info().model.is_none());
        let data = vec![9; BLOCK as usize];
        let path = device.info().path.clone().expect("both have one");
        let own = fs::OpenOptions::new().write(true).open(path).expect("opened");
        let target = Target::new(Arc::new(File::of_tree_unread(own, false)), 0);
        let extent = Extent::new(Bytes::ZERO, Bytes(BLOCK)).expect("small");
        let who = (TaskId(1), GroupId::ROOT, Area::from(extent));
        let mut make = || client.job(9, Op::Write, (0, BLOCK));
        let written = device.write_at_once(who, (&data, &target), &mut make);
        assert_eq!(written.is_some_and(|result| result.is_ok()), is_real);
        client.answers(usize::from(!is_real));
        let mut back = vec![0; BLOCK as usize];
        file.read_exact_at(&mut back, 0).expect("read");
        assert_eq!(back, data);
        assert_eq!(device.status().engine.paced_count, 0);
    }
    timers.stop();
}

#[test]
fn a_write_at_once_that_finds_no_room_is_an_event() {
    let (folder, timers) = (tempfile::tempdir().expect("a folder"), Timers::start().expect("one"));
    let mut devices = devices(folder.path(), &timers);
    let (device, _) = devices.swap_remove(0);
    assert!(device.info().model.is_none(), "the real one");
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("opened");
    let target = Target::new(Arc::new(File::of_tree_unread(full, false)), 0);
    let extent = Extent::new(Bytes::ZERO, Bytes(BLOCK)).expect("small");
    let who = (TaskId(1), GroupId::ROOT, Area::from(extent));
    let client = Client::new();
    let mut make = || client.job(9, Op::Write, (0, BLOCK));
    let data = vec![9; BLOCK as usize];
    let (_, error) = device
        .write_at_once(who, (&data, &target), &mut make)
        .expect("at once")
        .expect_err("there is no room");
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    let mut told = Vec::new();
    device.look(&mut |_, events| told = events.kept());
    let [LoggedEvent { event: DeviceEvent::NoSpace(text), .. }] = &*told else {
        panic!("{told:?}")
    };
    assert!(text.starts_with("a write of 4 KiB failed: No space left"), "{text}");
    timers.stop();
}

#[test]
fn half_of_what_may_be_dirty_is_told_once_for_each_limit() {
    let (folder, timers) = (tempfile::tempdir().expect("a folder"), Timers::start().expect("one"));
    let (device, _) = devices(folder.path(), &timers).swap_remove(0);
    let told = Arc::new(AtomicU64::new(0));
    let wake = Arc::clone(&told);
    device.on_half_dirty(Box::new(move || {
        wake.fetch_add(1, Relaxed);
    }));
    let client = Client::new();
    for turn in 1..=2 {
        let limit = Bytes::from_kib(800);
        let memory = Thresholds { background: Bytes::from_kib(600), limit };
        let budget = Budget::alone(memory);
        device.control(Control::Memory(budget)).expect("set");
        for (number, told_count) in [(0, turn - 1), (1, turn), (2, turn)] {
            let write = client.job(number, Op::Write, (number << 20, 220 << 10));
            device.submit(&mut vec![write]);
            assert_eq!(client.answers(1), [(number, None)]);
            if number < 2 {
                assert_eq!(told.load(Relaxed), told_count, "{number}");
            }
        }
        device.submit(&mut vec![client.job(3, Op::Flush, (0, 0))]);
        assert_eq!(client.answers(1), [(3, None)]);
        assert_eq!(device.memory_use().map(|used| used.dirty), Some(Bytes::ZERO));
        assert_eq!(told.load(Relaxed), turn);
    }
    timers.stop();
}

#[test]
fn a_portion_that_cannot_be_written_ends_its_write_and_no_other() {
    let timers = Timers::start().expect("a thread");
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = memfd_create("sealed", flags).expect("memory");
    ftruncate(&memory, SIZE).expect("sized");
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    let config = DeviceConfig::new("sealed", Kind::Path(path.clone().into()));
    let choice = IoEngineChoice::Threads;
    let device = FileDevice::open(&config, path.as_ref(), choice, &timers).expect("opens");
    ftruncate(&memory, 3 << 19).expect("cut");
    fcntl_add_seals(&memory, SealFlags::GROW).expect("sealed");
    let client = Client::new();
    // In several portions: the first can be written, the second cannot, the third is not tried.
    let long = client.job(1, Op::Write, (0, 3 << 20));
    device.submit(&mut vec![long, client.job(2, Op::Write, (0, BLOCK))]);
    assert_eq!(client.answers(2), [(1, Some(libc::EPERM)), (2, None)]);
    let status = device.status();
    assert_eq!((status.engine.paced_count, status.buffered_writes_count), (0, 1));
    timers.stop();
}
