//! Requests outlive the threads that started them.

use super::*;
use crate::buffer::Buffer;
use crate::config::IoEngineChoice;
use crate::io::Disk;
use iopace_core::request::{Extent, RequestId};
use iopace_core::units::Bytes;
use std::fs;
use std::io::Write;
use std::sync::mpsc::{self, Receiver};

struct Done(Mutex<mpsc::Sender<IoDone>>);

impl Completions for Done {
    fn completed(&self, done: &mut Vec<IoDone>) {
        for one in done.drain(..) {
            self.0.lock().expect("sound").send(one).expect("awaited");
        }
    }
}

/// A disk behind io_uring, unless that is not allowed here.
fn disk(file: fs::File) -> Option<(Disk, Arc<dyn Completions>, Receiver<IoDone>)> {
    let (sender, done) = mpsc::channel();
    let to: Arc<dyn Completions> = Arc::new(Done(Mutex::new(sender)));
    let file = Arc::new(File::adopt(file, u64::MAX));
    let disk = Disk::start(file, IoEngineChoice::Uring, Arc::downgrade(&to));
    if disk.is_err() {
        println!("skipped: io_uring is not allowed here");
    }
    disk.ok().map(|disk| (disk, to, done))
}

fn read(key: usize, offset: u64, len: usize) -> IoRequest {
    IoRequest {
        id: RequestId::forge(key as u64 + 1),
        key,
        op: Op::Read,
        extent: Extent::new(Bytes(offset), Bytes(len as u64)).expect("small"),
        fua: false,
        class: [Class::BestEffort, Class::Idle, Class::RealTime][key % 3],
        write_back: false,
        target: None,
        buffer: Buffer::new(len),
    }
}

#[test]
fn a_request_outlives_the_thread_that_started_it() {
    // A pipe is a file that a read waits for as long as one likes.
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let Some((disk, _to, done)) = disk(fs::File::from(OwnedFd::from(reader))) else { return };
    let disk = Arc::new(disk);
    for round in 0..10 {
        // Only a join waits until the kernel has no such thread any more.
        let starter = Arc::clone(&disk);
        let starting = thread::spawn(move || starter.start_all(&mut vec![read(round, 0, 8)]));
        starting.join().expect("started");
        let text = [round as u8; 8];
        writer.write_all(&text).expect("somebody reads");
        let IoDone { request, result, .. } = done.recv().expect("it comes back");
        result.expect("nobody has cancelled it");
        assert_eq!((request.key, request.buffer.as_slice()), (round, &text[..]));
    }
}

#[test]
fn all_that_many_threads_start_is_done_also_what_is_queued_at_the_end() {
    let file = tempfile::tempfile().expect("a temporary file");
    file.set_len(1 << 20).expect("sparse");
    let Some((disk, _to, done)) = disk(file) else { return };
    let (threads, each) = (8, 100);
    thread::scope(|scope| {
        for thread in 0..threads {
            let disk = &disk;
            scope.spawn(move || {
                for number in 0..each {
                    let key = thread * each + number;
                    disk.start_all(&mut vec![read(key, key as u64 * 512, 512)]);
                }
            });
        }
    });
    // It waits for what is under way.
    drop(disk);
    let mut keys: Vec<usize> = done
        .try_iter()
        .map(|done| {
            done.result.expect("read");
            done.request.key
        })
        .collect();
    keys.sort_unstable();
    assert!(keys.iter().copied().eq(0..threads * each), "{} of them", keys.len());
}
