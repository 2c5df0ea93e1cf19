//! How a device answers what its frontends have asked: all that it knows of them.

use crate::buffer::Buffer;
use iopace_core::request::{Extent, Outcome};
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// From this size on, a read is sent from the page cache without a copy; below, copying is cheaper
/// than the two more system calls.
pub const SEND_FILE_BYTES: usize = 128 * 1024;

/// How a request ended.
#[derive(Debug)]
pub struct Answered {
    /// In the engine's words.
    pub outcome: Outcome,
    /// Where it was.
    pub extent: Extent,
    /// How far it came.
    pub progress: Progress,
    /// The data of a read.
    pub data: Buffer,
}

/// The state of a request at its end, besides its outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of a write that were written before an error.
    pub written: u64,
    /// The source of a copy ends there: no error.
    pub is_end: bool,
    /// The system's own error number.
    pub errno: Option<i32>,
}

impl Progress {
    /// Takes note of an error; the first counts.
    pub(crate) fn failed(&mut self, error: &io::Error) {
        self.errno = self.errno.or(error.raw_os_error());
        self.is_end |= error.kind() == io::ErrorKind::UnexpectedEof;
    }
}

/// The right and the duty to answer one request, of whichever frontend.
pub trait Answer: fmt::Debug + Send {
    /// Answers it. Replies that are gathered are sent by [`Touched::send`].
    fn answer(self: Box<Self>, answered: Answered, touched: &mut Touched);

    /// The program that waits for it, if it may be killed meanwhile.
    fn waiter(&self) -> Option<Arc<dyn Waiter>> {
        None
    }

    /// It is carried out from now on. False if nobody waits for it any more: then it must not be,
    /// as others may have written there in the meantime.
    fn begin(&self) -> bool {
        true
    }

    /// Whether this thread may wait for the client, as [`Answer::answer_from_file`] does.
    fn may_wait_here(&self) -> bool {
        false
    }

    /// Answers a read with data from a file, and waits until the client takes it.
    fn answer_from_file(self: Box<Self>, _file: BorrowedFd<'_>, _extent: Extent) {
        debug_assert!(false, "only where the thread may wait");
    }
}

/// A program that waits for a request and may be killed meanwhile.
pub trait Waiter: fmt::Debug + Send + Sync {
    /// The request, or a part of it, is carried out now. False if nobody waits for it any more:
    /// then it must not be.
    fn begin(&self) -> bool;

    /// What was begun has come to an end; more of it may begin later.
    fn has_ended(&self);
}

/// A client whose replies are gathered.
pub trait Client: Send + Sync {
    /// Sends what was gathered.
    fn send(self: Arc<Self>);

    /// The same, but a thread that may wait for its client keeps what that client does not take
    /// now, to send it itself.
    fn send_some(self: Arc<Self>);
}

/// Clients with replies that are not sent yet, each once.
#[derive(Default)]
pub struct Touched(Vec<Arc<dyn Client>>);

impl Touched {
    /// This one has a reply to be sent.
    pub fn add(&mut self, client: Arc<dyn Client>) {
        let is =
            |known: &Arc<dyn Client>| std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(&client));
        if !self.0.iter().any(is) {
            self.0.push(client);
        }
    }

    /// Sends as much as the clients take, see [`Client::send_some`].
    pub(crate) fn send_some(&mut self) {
        self.0.drain(..).for_each(|client| client.send_some());
    }

    /// Sends all replies, with one system call per client.
    pub fn send(&mut self) {
        self.0.drain(..).for_each(|client| client.send());
    }
}
