//! One thread that sends what clients did not take at once.
//!
//! Replies are sent without blocking by whoever finishes a request. What a socket does not take is
//! left with its connection and handed to this thread, which waits for the socket to have room. So
//! a client that does not read holds up nobody but itself.

use super::connection::Connection;
use crate::clock;
use crate::limits::STUCK_CLIENT;
use crate::memory::Memory;
use iopace_core::time::{Instant, Nanos};
use rustix::event::epoll;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// How often stuck clients are looked for, when some socket is full.
const LOOK_EVERY_MS: i64 = 500;

/// The thread and the connections it looks after.
#[derive(Debug)]
pub struct Drainer {
    epoll: OwnedFd,
    stuck: Mutex<BTreeMap<u64, (Arc<Connection>, Instant)>>,
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

    /// Takes over a connection whose socket is full. It is given back when all is sent.
    pub(super) fn adopt(&self, connection: &Arc<Connection>) {
        let key = connection.number();
        let mut stuck = self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
        stuck.insert(key, (Arc::clone(connection), clock::now()));
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
        let Some((connection, moved)) = stuck.get_mut(&key) else {
            return;
        };
        let connection = Arc::clone(connection);
        *moved = clock::now();
        // Who fills the socket again at once waits for this lock before it is watched anew.
        if connection.drain() {
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
        let limit = Nanos(u64::try_from(STUCK_CLIENT.as_nanos()).expect("seconds"));
        let now = clock::now();
        stuck.retain(|_, (connection, moved)| {
            let is_stuck = now.since(*moved) > limit;
            if is_stuck {
                tracing::warn!(
                    connection = connection.number(),
                    "closed: it took no reply for {} s while others waited for memory",
                    STUCK_CLIENT.as_secs()
                );
                let _ = epoll::delete(&self.epoll, connection.socket());
                connection.close();
            }
            !is_stuck
        });
    }
}
