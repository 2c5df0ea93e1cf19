//! One thread that sends what clients did not take at once.
//!
//! The thread that finishes a request sends the reply without blocking. What a socket does not take
//! is left with its connection and handed to the drainer thread, which waits for the socket to have
//! room. So a client that does not read holds up nobody but itself.

use crate::clock;
use crate::limits::{REPLIES_BYTES_MIN, SLOW_CLIENT, STUCK_CLIENT};
use crate::memory::Memory;
use iopace_core::time::{Instant, Nanos};
use rustix::event::epoll;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How often stuck clients are looked for, when some socket is full.
const LOOK_EVERY_MS: i64 = 500;

/// A client that takes its replies slowly.
pub(super) trait Slow: fmt::Debug + Send + Sync {
    /// Its number, unique among its clients.
    fn number(&self) -> u64;

    /// Its socket.
    fn socket(&self) -> BorrowedFd<'_>;

    /// The socket has room. Returns how many bytes it took, and whether all is sent. If so, the
    /// threads that finish requests send again by themselves from then on, and no reply that they
    /// add stays behind.
    fn drain(&self) -> (usize, bool);

    /// Ends it.
    fn close(&self);
}

/// What a client takes whose socket is full.
#[derive(Debug)]
pub(super) struct Taking {
    /// When it last took anything.
    last: Instant,
    /// When it had last taken as much as it has to, or began.
    since: Instant,
    /// Bytes since then.
    bytes: usize,
}

impl Taking {
    pub(super) fn new(now: Instant) -> Taking {
        Taking { last: now, since: now, bytes: 0 }
    }

    pub(super) fn takes(&mut self, bytes: usize, now: Instant) {
        self.last = now;
        self.bytes += bytes;
        if self.bytes >= REPLIES_BYTES_MIN {
            *self = Taking::new(now);
        }
    }

    /// Whether it takes nothing, or so little that it could keep memory for ever.
    pub(super) fn is_stuck(&self, now: Instant) -> bool {
        now.since(self.last) > nanos(STUCK_CLIENT) || now.since(self.since) > nanos(SLOW_CLIENT)
    }
}

/// Tells the operator of a client that is closed because it is stuck.
pub(super) fn warn_of_stuck(connection: u64) {
    tracing::warn!(
        connection,
        "closed: it took no reply for {} s, or less than {} KiB in {} s, while others waited for \
         memory",
        STUCK_CLIENT.as_secs(),
        REPLIES_BYTES_MIN >> 10,
        SLOW_CLIENT.as_secs()
    );
}

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).expect("seconds"))
}

/// A client whose socket is full, and what it has taken.
type Adopted = (Arc<dyn Slow>, Taking);

/// The thread and the connections it looks after.
#[derive(Debug)]
pub struct Drainer {
    epoll: OwnedFd,
    stuck: Mutex<BTreeMap<u64, Adopted>>,
    memory: Arc<Memory>,
}

impl Drainer {
    /// Starts the thread, which lives as long as the process.
    ///
    /// # Errors
    /// No thread or no epoll instance.
    pub fn start(memory: Arc<Memory>) -> io::Result<Arc<Drainer>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let drainer = Arc::new(Drainer { epoll, stuck: Mutex::default(), memory });
        let running = Arc::clone(&drainer);
        thread::Builder::new().name("drainer".into()).spawn(move || running.run())?;
        Ok(drainer)
    }

    /// Takes over a connection whose socket is full, with what its client has taken so far. It is
    /// given back when all is sent.
    pub(super) fn adopt(&self, connection: Arc<dyn Slow>, taking: Taking) {
        let key = connection.number();
        let mut stuck = self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
        stuck.insert(key, (Arc::clone(&connection), taking));
        let flags = epoll::EventFlags::OUT;
        let data = epoll::EventData::new_u64(key);
        if let Err(error) = epoll::add(&self.epoll, connection.socket(), data, flags) {
            tracing::debug!(%error, "a full socket cannot be watched: closing it");
            stuck.remove(&key);
            connection.close();
        }
    }

    fn run(&self) {
        let mut events = Vec::with_capacity(64);
        let every = rustix::event::Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY_MS * 1_000_000 };
        loop {
            events.clear();
            let room = rustix::buffer::spare_capacity(&mut events);
            let waited = epoll::wait(&self.epoll, room, Some(&every));
            if let Err(error) = waited
                && error != rustix::io::Errno::INTR
            {
                tracing::error!(%error, "the drainer's epoll instance failed");
                return;
            }
            let ready: Vec<u64> =
                events.iter().map(|event: &epoll::Event| event.data.u64()).collect();
            for key in ready {
                self.go_on(key);
            }
            self.close_stuck();
        }
    }

    /// Sends more to a socket that has room.
    fn go_on(&self, key: u64) {
        let mut stuck = self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((connection, taking)) = stuck.get_mut(&key) else {
            return;
        };
        let connection = Arc::clone(connection);
        // Who fills the socket again at once waits for this lock before it is watched anew.
        let (bytes, is_sent) = connection.drain();
        taking.takes(bytes, clock::now());
        if is_sent {
            let _ = epoll::delete(&self.epoll, connection.socket());
            stuck.remove(&key);
        }
    }

    /// Closes clients that take nothing while others wait for memory.
    fn close_stuck(&self) {
        let mut stuck = self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
        if stuck.is_empty() || !self.memory.is_wanted() {
            return;
        }
        let now = clock::now();
        stuck.retain(|_, (connection, taking)| {
            let is_stuck = taking.is_stuck(now);
            if is_stuck {
                warn_of_stuck(connection.number());
                let _ = epoll::delete(&self.epoll, connection.socket());
                connection.close();
            }
            !is_stuck
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant(0) + Nanos::from_secs(seconds)
    }

    #[test]
    fn a_client_that_takes_nothing_or_a_little_now_and_then_is_stuck() {
        let silent = Taking::new(at(0));
        assert!(!silent.is_stuck(at(5)) && silent.is_stuck(at(6)));
        let mut trickling = Taking::new(at(0));
        (1..=30).for_each(|second| trickling.takes(100, at(second)));
        assert!(!trickling.is_stuck(at(30)) && trickling.is_stuck(at(31)));
        // A slow line: some 100 kbit/s.
        let mut slow = Taking::new(at(0));
        for second in 1..=100 {
            slow.takes(12_000, at(second));
            assert!(!slow.is_stuck(at(second)), "{second}");
        }
    }
}
