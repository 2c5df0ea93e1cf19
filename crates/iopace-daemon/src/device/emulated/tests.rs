//! Large reads of a store in memory.

use super::*;
use crate::answer::Progress;
use crate::buffer::Buffer;
use crate::held::Held;
use crate::memory::Memory;
use crate::nbd::connection::Connection;
use crate::nbd::drainer::Drainer;
use crate::nbd::reply;
use iopace_core::request::{GroupId, Space, TaskId};
use iopace_nbd::Replies;
use std::os::unix::net::UnixStream;

const LARGE: u64 = SEND_FILE_BYTES as u64;

fn device(timers: &Arc<Timers>) -> Arc<EmulatedDevice> {
    let (model, size) = ("null".to_owned(), Some(Bytes(4 * LARGE)));
    let backend = Backend::Emulated { model, store: None, size, cache: None };
    let config = DeviceConfig { direct: true, ..DeviceConfig::new("disk", backend) };
    EmulatedDevice::open(&config, timers).expect("opens")
}

fn extent(offset: u64, len: u64) -> Extent {
    Extent::new(Bytes(offset), Bytes(len)).expect("small")
}

fn read(connection: &Arc<Connection>, extent: Extent) -> Job {
    let held = Held::with_data(extent.len().get() as usize, false);
    assert!(connection.try_open(held));
    let replies = Replies::default();
    Job {
        task: TaskId(1),
        group: GroupId::ROOT,
        op: Op::Read,
        extent,
        space: Space::DISK,
        cover: Cover::All,
        fua: false,
        buffer: Buffer::default(),
        target: None,
        progress: Progress::default(),
        ticket: Box::new(reply::Ticket::new(Arc::clone(connection), 1, replies, held, true)),
    }
}

#[test]
fn a_hole_is_read_by_a_system_call_and_takes_no_memory() {
    let device = device(&Timers::start().expect("one"));
    let memory = Arc::new(Memory::new(1 << 30));
    let drainer = Drainer::start(Arc::clone(&memory)).expect("a thread");
    let (ours, _theirs) = UnixStream::pair().expect("sockets");
    let connection = Connection::new(1, ours.into(), memory, drainer);
    connection.may_wait_here();
    let mut touched = Touched::default();
    let mut is_sent = |extent| {
        let job = read(&connection, extent);
        let is_sent = device.is_sent_from_store(&job);
        device.answer(job, Outcome::Ok, &mut touched);
        is_sent
    };
    let (whole, mut data) = (extent(0, LARGE), vec![7; LARGE as usize]);
    assert!(!is_sent(whole));
    let taken = || rustix::fs::fstat(device.shell.file().fd()).expect("open").st_blocks;
    assert_eq!(taken(), 0);
    // All but the last page is there, then all.
    let most = whole.len().get() - 4096;
    device.perform(Op::Write, extent(0, most), false, &mut data[..most as usize]).expect("written");
    assert!(!is_sent(whole));
    device.perform(Op::Write, whole, false, &mut data).expect("written");
    assert!(is_sent(whole) && !is_sent(extent(4096, LARGE)) && !is_sent(extent(0, LARGE - 1)));
    device.perform(Op::Trim, extent(8192, 4096), false, &mut []).expect("trimmed");
    assert!(!is_sent(whole));
    device.perform(Op::Read, whole, false, &mut data).expect("read");
    assert!(data[8192..12288].iter().all(|byte| *byte == 0) && data[12288] == 7);
    device.perform(Op::Trim, whole, false, &mut []).expect("trimmed");
    assert!(!is_sent(whole));
    assert_eq!(taken(), 0);
}
