//! Requests of programs that wait for their answer, and those among them that are being killed.
//!
//! A program whose request the kernel has handed to us cannot be killed before we answer, whatever
//! it waits for. The kernel tells of its first signal and not which one it is; so a look is taken
//! at the callers of requests that wait for long, and who is being killed gets `EINTR`. The request
//! goes on or is given up, and its result is thrown away. While it goes on, nothing else changes
//! the same file (inflight_operations.rs).

mod looks;
mod operations;
mod room;
mod whole;

use super::caller::{Caller, Operation};
use super::inflight_operations::{Asker, InflightOperations, Touch};
use crate::answer::Progress;
use crate::answer::{Answer, Answered, Touched, Waiter};
use iopace_core::request::{DiskError, Outcome};
use iopace_fuse::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use operations::{Due, Owed, Turn};
pub(crate) use room::Room;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
pub(crate) use whole::Whole;

/// Where the kernel puts what a read gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Into the page cache. Once the thread that asked is gone, this was reading ahead: nobody
    /// sees its error, and whoever needs its pages reads them again.
    Cached,
    /// Into the memory of a program, which may wait for it when the thread that asked is gone
    /// (asynchronous I/O).
    Direct,
}

/// Where the answer goes.
pub(crate) enum Reply {
    /// To a read; of what kind.
    Data(ReplyData, Kept),
    /// To a write of so many bytes.
    Write(ReplyWrite, u32),
    /// To a write of so many bytes of a disk. It is done as a whole or fails: a loop device takes a
    /// write of which only a part was made for done (Linux 6.18, without direct I/O).
    WholeWrite(ReplyWrite, u32),
    /// To a sync.
    Done(ReplyEmpty),
    /// To a request that went in pieces: each of them has this.
    Piece(Arc<Whole>),
    /// To an operation that is not carried out yet; whose.
    Operation(Operation, u32),
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reply::Data(..) => "Data",
            Reply::Write(..) => "Write",
            Reply::WholeWrite(..) => "WholeWrite",
            Reply::Done(_) => "Done",
            Reply::Piece(_) => "Piece",
            Reply::Operation(..) => "Operation",
        })
    }
}

impl Reply {
    fn error(self, errno: Errno) {
        match self {
            Reply::Data(reply, _) => reply.error(errno),
            Reply::Write(reply, _) | Reply::WholeWrite(reply, _) => reply.error(errno),
            Reply::Done(reply) => reply.error(errno),
            Reply::Piece(whole) => whole.done(Err(errno)),
            Reply::Operation(operation, _) => operation.end(Err(errno)),
        }
    }
}

/// A request that waits.
#[derive(Debug)]
struct Waiting {
    /// The thread that waits for it, and its user.
    asker: Asker,
    uid: u32,
    /// When it is carried out at the latest, if it is an operation that may not wait for long.
    due: Option<Due>,
    /// What it changes, and where that is known if it is given up while it does.
    touch: Touch,
    inflight: Weak<InflightOperations>,
    stand: Mutex<Stand>,
}

#[derive(Debug)]
struct Stand {
    /// `None` once it is answered.
    reply: Option<Reply>,
    begun: Begun,
    /// It goes on below though nobody waits for it, and others wait for that.
    is_given_up: bool,
    /// It was not admitted by its deadline.
    is_owed: bool,
}

/// Whether it is being carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    No,
    /// Since the last look: perhaps the system was not called yet.
    Now,
    /// Since before the last look: where nobody waits for what was given up, whoever comes later
    /// comes later below as well.
    Earlier,
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Stand> {
        self.stand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_waited_for(&self) -> bool {
        self.lock().reply.is_some()
    }

    fn is_cached_read(&self) -> bool {
        matches!(self.lock().reply, Some(Reply::Data(_, Kept::Cached)))
    }

    fn take(&self) -> Option<Reply> {
        self.lock().reply.take()
    }

    /// Takes the reply to give it up, unless it was just begun: others who write to the same place
    /// once the program is gone must not be overtaken. If it has begun, they wait until it ends.
    fn give_up(&self) -> Option<Reply> {
        let mut stand = self.lock();
        if stand.begun == Begun::Now {
            stand.begun = Begun::Earlier;
            return None;
        }
        self.give_up_now(&mut stand)
    }

    /// The same at once, where the kernel knows of a signal: others that change the same wait for
    /// what has begun. Of what has begun and does not say what it changes only a read is: all else,
    /// as zeroes of a disk, is left to the looks.
    fn give_up_at_once(&self) -> Option<Reply> {
        let mut stand = self.lock();
        let is_harmless = matches!(stand.reply, Some(Reply::Data(..) | Reply::Operation(..)));
        if stand.begun != Begun::No && !is_harmless && self.touch == Touch::NOTHING {
            return None;
        }
        self.give_up_now(&mut stand)
    }

    fn give_up_now(&self, stand: &mut Stand) -> Option<Reply> {
        let reply = stand.reply.take()?;
        if let Some(inflight) = self.inflight.upgrade().filter(|_| stand.begun != Begun::No) {
            inflight.add(self.touch);
            stand.is_given_up = true;
        }
        Some(reply)
    }

    /// It, or the part of it that had begun, is not carried out any more.
    fn end(&self) {
        let mut stand = self.lock();
        stand.begun = Begun::No;
        let was_given_up = std::mem::take(&mut stand.is_given_up);
        drop(stand);
        if let Some(inflight) = self.inflight.upgrade().filter(|_| was_given_up) {
            inflight.has_ended(self.uid, self.touch);
        }
    }
}

impl Waiter for Waiting {
    fn begin(&self) -> bool {
        let mut stand = self.lock();
        let is_waited_for = match &stand.reply {
            // Given up with another piece of the same request.
            Some(Reply::Piece(whole)) => whole.is_waited_for(),
            reply => reply.is_some(),
        };
        if is_waited_for {
            stand.begun = Begun::Now;
        }
        is_waited_for
    }

    fn has_ended(&self) {
        self.end();
    }
}

/// All requests of a mount that wait.
#[derive(Debug, Default)]
pub(crate) struct PendingReplies {
    waiting: Mutex<Table>,
    /// Where those are known that are given up while they are carried out; its threads carry out
    /// operations.
    inflight: Weak<InflightOperations>,
}

#[derive(Debug, Default)]
struct Table {
    last: u64,
    /// Those that came first are first.
    all: BTreeMap<u64, Arc<Waiting>>,
    /// All up to this one have waited since the look before the last.
    old: u64,
    /// The last one at the time of the last look.
    seen: u64,
    /// Operations that were carried out before limits let them, and are in line for what they owe.
    owed: Owed,
    /// Those of groups that owe too much for one more in line: they wait for their deadline here.
    aside: BTreeMap<u64, Ticket>,
}

/// The right and the duty to answer a request.
#[derive(Debug)]
#[must_use = "a request must be answered"]
pub struct Ticket {
    waiting: Arc<Waiting>,
    pending: Weak<PendingReplies>,
    number: u64,
    is_answered: bool,
    /// What its data takes.
    _room: Option<Room>,
}

impl PendingReplies {
    /// None yet. What is given up while it is carried out is made known there.
    pub(crate) fn new(inflight: &Arc<InflightOperations>) -> PendingReplies {
        PendingReplies { inflight: Arc::downgrade(inflight), ..PendingReplies::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request that will be answered later; `from` waits for it, `touch` is what
    /// it changes, `room` what its data takes. Without a reply nobody waits any more, and it is not
    /// carried out.
    pub(crate) fn hold(
        self: &Arc<Self>,
        (from, touch): (Caller, Touch),
        reply: impl Into<Option<Reply>>,
        room: Option<Room>,
    ) -> Ticket {
        self.hold_until(((from.pid, from.uid), touch), reply.into(), (room, None))
    }

    fn hold_until(
        self: &Arc<Self>,
        ((pid, uid), touch): ((u32, u32), Touch),
        reply: Option<Reply>,
        (room, due): (Option<Room>, Option<Due>),
    ) -> Ticket {
        let (begun, is_given_up, is_owed) = (Begun::No, false, false);
        let stand = Mutex::new(Stand { reply, begun, is_given_up, is_owed });
        let (inflight, asker) = (Weak::clone(&self.inflight), Asker::now(pid));
        let waiting = Arc::new(Waiting { asker, uid, due, touch, inflight, stand });
        let mut table = self.lock();
        table.last += 1;
        let number = table.last;
        table.all.insert(number, Arc::clone(&waiting));
        let pending = Arc::downgrade(self);
        Ticket { waiting, pending, number, is_answered: false, _room: room }
    }

    /// Nobody waits any more: the mount is gone, and its callers have had an error. Nothing of what
    /// they asked for is carried out from now on.
    pub(crate) fn give_up(&self) {
        let mut table = self.lock();
        let all: Vec<Arc<Waiting>> = table.all.values().map(Arc::clone).collect();
        let _aside = std::mem::take(&mut table.aside);
        drop(table);
        all.iter().filter_map(|waiting| waiting.take()).for_each(|reply| reply.error(Errno::EIO));
    }

    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        let table = self.lock();
        table.all.len() - table.owed.count()
    }
}

impl Answer for Ticket {
    /// Answers it, unless that was done already.
    fn answer(mut self: Box<Self>, answered: Answered, _touched: &mut Touched) {
        let Answered { outcome, progress, data, .. } = answered;
        self.is_answered = true;
        if outcome == Outcome::Ok && self.waiting.operation_of().is_some() {
            if let Some(pending) = self.pending.upgrade() {
                pending
                    .carry_out(Turn { waiting: Arc::clone(&self.waiting), _ticket: Some(*self) });
            }
            return;
        }
        let Some(reply) = self.waiting.take() else { return };
        match (outcome, reply) {
            (Outcome::Ok, Reply::Data(reply, _)) => reply.data(data.as_slice()),
            (Outcome::Ok, Reply::Write(reply, size) | Reply::WholeWrite(reply, size)) => {
                reply.written(size);
            }
            (Outcome::Ok, Reply::Done(reply)) => reply.ok(),
            (Outcome::Ok, Reply::Piece(whole)) => whole.done(Ok(())),
            (Outcome::Ok, Reply::Operation(operation, _)) => operation.end(Ok(())),
            (_, Reply::Write(reply, _)) if progress.written > 0 || progress.is_end => {
                reply.written(u32::try_from(progress.written).expect("a part of the write"));
            }
            (outcome, reply) => reply.error(errno(outcome, progress)),
        }
    }

    fn waiter(&self) -> Option<Arc<dyn Waiter>> {
        Some(Arc::clone(&self.waiting) as Arc<dyn Waiter>)
    }

    fn begin(&self) -> bool {
        self.waiting.begin()
    }
}

impl Drop for Ticket {
    /// A ticket that nobody answered is a bug. Tests hear of it; the program gets an error.
    fn drop(&mut self) {
        // First the reply: whoever finds it counts what is owed, and the ticket counts down.
        let reply = self.waiting.take();
        self.waiting.end();
        if let Some(pending) = self.pending.upgrade() {
            let mut table = pending.lock();
            table.all.remove(&self.number);
            table.owed.forget(&self.waiting);
        }
        let Some(reply) = reply else { return };
        reply.error(Errno::EIO);
        if !self.is_answered {
            debug_assert!(std::thread::panicking(), "a request was dropped unanswered");
            tracing::error!("a request was dropped unanswered");
        }
    }
}

/// The error number of a request that failed: the system's own where it has said one.
fn errno(outcome: Outcome, progress: Progress) -> Errno {
    if let Some(errno) = progress.errno {
        return Errno::from_i32(errno);
    }
    match outcome {
        Outcome::Ok => Errno::EIO,
        // The table is full: the program may try again.
        Outcome::Refused => Errno::EAGAIN,
        Outcome::Failed(error) => match error {
            DiskError::Io => Errno::EIO,
            DiskError::NoSpace => Errno::ENOSPC,
            DiskError::Gone => Errno::ENXIO,
            DiskError::NotPermitted => Errno::EPERM,
            DiskError::Unsupported => Errno::EOPNOTSUPP,
        },
    }
}

#[cfg(test)]
mod tests;
