//! A pool of threads for work that may block.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// The queue between those who submit and the threads. Bounded by those who submit: only started
/// requests come here (the engine's window), and one portion of each buffered write.
#[derive(Debug)]
struct Queue<T> {
    work: VecDeque<T>,
    closed: bool,
}

#[derive(Debug)]
struct Shared<T> {
    queue: Mutex<Queue<T>>,
    changed: Condvar,
}

/// The pool.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    shared: Arc<Shared<T>>,
    threads: Vec<JoinHandle<()>>,
}

impl<T: Send + 'static> Pool<T> {
    /// Starts threads that carry out `work`, one piece each at a time.
    pub(crate) fn start(
        name: &str,
        threads_count: usize,
        work: impl Fn(T) + Clone + Send + 'static,
    ) -> io::Result<Pool<T>> {
        let queue = Mutex::new(Queue { work: VecDeque::new(), closed: false });
        let shared = Arc::new(Shared { queue, changed: Condvar::new() });
        let mut pool = Pool { shared, threads: Vec::new() };
        for number in 0..threads_count {
            let (shared, work) = (Arc::clone(&pool.shared), work.clone());
            let builder = thread::Builder::new().name(format!("{name}-{number}"));
            let run = move || {
                while let Some(piece) = next(&shared) {
                    work(piece);
                }
            };
            pool.threads.push(builder.spawn(run)?);
        }
        Ok(pool)
    }

    /// Takes pieces of work.
    pub(crate) fn submit(&self, pieces: Vec<T>) {
        let count = pieces.len();
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.work.extend(pieces);
        drop(queue);
        for _ in 0..count.min(self.threads.len()) {
            self.shared.changed.notify_one();
        }
    }
}

impl<T> Drop for Pool<T> {
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

fn next<T>(shared: &Shared<T>) -> Option<T> {
    let mut queue = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(piece) = queue.work.pop_front() {
            return Some(piece);
        }
        if queue.closed {
            return None;
        }
        queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}
