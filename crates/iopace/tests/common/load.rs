//! Load on an export.

use super::Serving;
use iopace_nbd::client::{Client, Wanted};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// A connection that reads at random places, one request after the other, until it is dropped.
pub struct Reader {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    pub fn new(serving: &Serving, export: &str, bytes: usize) -> Reader {
        let stream = UnixStream::connect(serving.socket()).expect("connected");
        let mut client = Client::connect(stream, export, Wanted::default()).expect("opened");
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (mut data, mut place) = (vec![0; bytes], 7_u64);
            while !ended.load(Ordering::Relaxed) {
                place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if client.read((place >> 40) % 200 * 4096, &mut data).is_err() {
                    return;
                }
            }
        });
        Reader { stop, thread: Some(thread) }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
