//! The thread of one machine: it takes requests from all its queues and has the conversation.

use super::intake::Intake;
use super::link::Link;
use super::machine::Machine;
use crate::clock;
use crate::io::may_submit_from_here;
use crate::spin::{Look, Spin};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use vhost::vhost_user::{BackendReqHandler, Error};

/// Of the conversation there is something to read.
const SOCKET: u64 = 1;
/// Some other thread has woken this one.
const WAKE: u64 = 2;

/// Rounds over busy queues until the conversation is looked at: it must not wait for a pause.
const ROUNDS_MAX: u32 = 16;

/// Events taken at once: one socket, one other thread, and some queues; all queues are looked at
/// anyway.
const EVENTS_MAX: usize = 16;

/// One machine's thread.
pub(super) struct Session {
    machine: Arc<Machine>,
    intake: Intake,
    talk: BackendReqHandler<Mutex<Link>>,
    events: Arc<OwnedFd>,
    /// The queues that have begun, a bit for each.
    started: Arc<AtomicU64>,
    spin: Spin,
}

/// Why a session ended; all of them are ordinary.
enum End {
    /// The machine's process is gone.
    Closed,
    /// The daemon ends.
    Stopped,
    /// The conversation went wrong.
    Refused(String),
}

impl Session {
    /// # Errors
    /// No descriptor.
    pub(super) fn new(machine: Arc<Machine>, socket: UnixStream) -> io::Result<Session> {
        let events = Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
        epoll::add(&*events, &socket, EventData::new_u64(SOCKET), EventFlags::IN)?;
        epoll::add(&*events, &machine.wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        let started = Arc::new(AtomicU64::new(0));
        let link = Link::new(Arc::clone(&machine), Arc::clone(&events), Arc::clone(&started));
        let talk = BackendReqHandler::from_stream(socket, Arc::new(Mutex::new(link)));
        let intake = Intake::new(Arc::clone(&machine));
        Ok(Session { machine, intake, talk, events, started, spin: Spin::default() })
    }

    /// Serves the machine until it goes; its requests in flight are waited for.
    pub(super) fn run(mut self) {
        may_submit_from_here();
        self.machine.is_served_here();
        let end = self.serve();
        let machine = self.machine.number;
        match end {
            End::Closed => tracing::debug!(machine, "closed"),
            End::Stopped => tracing::debug!(machine, "stopped"),
            End::Refused(why) => tracing::warn!(machine, "closed: {why}"),
        }
        self.machine.finish();
    }

    fn serve(&mut self) -> End {
        let mut rounds = 0;
        loop {
            if self.machine.is_stopping() {
                return End::Stopped;
            }
            rounds = if self.take_all() > 0 { rounds + 1 } else { ROUNDS_MAX };
            if rounds < ROUNDS_MAX {
                continue;
            }
            rounds = 0;
            let is_idle = !self.any_has_more();
            // With requests at the disk the machine may well have nothing more to ask.
            let spins = is_idle && self.started().all(|ring| self.machine.rings[ring].is_idle());
            if spins && self.spin.wait(|| self.look()).is_some() {
                continue;
            }
            let may_sleep = is_idle && !self.listen();
            if let Err(end) = self.wait(may_sleep) {
                return end;
            }
        }
    }

    fn started(&self) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.started.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            let ring = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(ring)
        })
    }

    fn take_all(&mut self) -> usize {
        self.started().map(|ring| self.intake.take(ring)).sum()
    }

    fn any_has_more(&self) -> bool {
        self.started().any(|ring| self.machine.rings[ring].has_more())
    }

    fn look(&self) -> Look<()> {
        if self.any_has_more() { Look::Found(()) } else { Look::Nothing }
    }

    /// Drivers are to tell of more from now on. Whether there is something already.
    fn listen(&self) -> bool {
        self.started().fold(false, |has, ring| self.machine.rings[ring].listen() | has)
    }

    /// Waits for something to do, or only looks, and does what the conversation asks for.
    fn wait(&mut self, may_sleep: bool) -> Result<(), End> {
        const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut happened = Vec::with_capacity(EVENTS_MAX);
        let limit = (!may_sleep).then_some(&AT_ONCE);
        let begin = clock::now();
        match epoll::wait(&*self.events, spare_capacity(&mut happened), limit) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(End::Refused(io::Error::from(error).to_string())),
        }
        if may_sleep {
            self.spin.slept(clock::now().since(begin));
        }
        for event in happened {
            match event.data.u64() {
                SOCKET => self.talk()?,
                WAKE => {
                    let _ = rustix::io::read(&self.machine.wake, &mut [0; 8]);
                    self.machine.call();
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn talk(&mut self) -> Result<(), End> {
        match self.talk.handle_request() {
            Ok(()) | Err(Error::SocketRetry(_)) => Ok(()),
            Err(Error::Disconnected) => Err(End::Closed),
            Err(Error::SocketBroken(_) | Error::SocketError(_)) => Err(End::Closed),
            Err(error) if self.machine.is_stopping() => {
                tracing::debug!(%error, "the conversation ends");
                Err(End::Stopped)
            }
            Err(error) => Err(End::Refused(error.to_string())),
        }
    }
}
