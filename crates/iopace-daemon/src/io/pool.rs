//! A pool of threads that carry out requests with ordinary blocking calls.

use super::file::File;
use super::{Completions, IoDone, IoRequest};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};

/// The queue between those who submit and the threads. Bounded by the engine's window: only started
/// requests come here.
#[derive(Debug, Default)]
struct Queue {
    requests: VecDeque<IoRequest>,
    closed: bool,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// The pool.
#[derive(Debug)]
pub(super) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    pub(super) fn start(
        name: &str,
        threads_count: usize,
        file: Arc<File>,
        to: Weak<dyn Completions>,
    ) -> io::Result<Pool> {
        let mut pool = Pool { shared: Arc::default(), threads: Vec::new() };
        for number in 0..threads_count {
            let (shared, file, to) = (Arc::clone(&pool.shared), Arc::clone(&file), to.clone());
            let builder = thread::Builder::new().name(format!("{name}-{number}"));
            pool.threads.push(builder.spawn(move || work(&shared, &file, &to))?);
        }
        Ok(pool)
    }

    pub(super) fn submit(&self, requests: Vec<IoRequest>) {
        let count = requests.len();
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.requests.extend(requests);
        drop(queue);
        if count == 1 {
            self.shared.changed.notify_one();
        } else {
            self.shared.changed.notify_all();
        }
    }
}

impl Drop for Pool {
    /// Lets the threads finish what is queued. The last completion may itself end the device on
    /// one of them, which then must not wait for itself.
    fn drop(&mut self) {
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

fn next(shared: &Shared) -> Option<IoRequest> {
    let mut queue = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(request) = queue.requests.pop_front() {
            return Some(request);
        }
        if queue.closed {
            return None;
        }
        queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}

fn work(shared: &Shared, file: &File, to: &Weak<dyn Completions>) {
    while let Some(mut request) = next(shared) {
        let IoRequest { op, extent, fua, .. } = request;
        let result = file.perform(op, extent, fua, request.buffer.as_mut_slice());
        if let Some(to) = to.upgrade() {
            to.completed(&mut vec![IoDone { request, result }]);
        }
    }
}
