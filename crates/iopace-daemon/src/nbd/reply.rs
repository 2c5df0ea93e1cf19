//! The reply that a client's request must get.

use super::connection::{Connection, Data};
use crate::answer::{Answer, Answered, Client, Touched};
use crate::buffer::Buffer;
use crate::device::pieces::Parts;
use crate::held::Held;
use iopace_core::request::{DiskError, Extent, Outcome};
use iopace_nbd::Error as NbdError;
use iopace_nbd::Replies;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The right and the duty to answer one request.
#[derive(Debug)]
#[must_use = "a request must be answered"]
pub struct Ticket {
    connection: Option<Arc<Connection>>,
    cookie: u64,
    replies: Replies,
    /// Memory counted for it.
    held: Held,
    is_read: bool,
    /// The request of which it is a piece.
    whole: Option<Arc<Parts<NbdError>>>,
}

impl Ticket {
    /// A ticket for the request with that cookie; `held` was counted for it already.
    pub fn new(
        connection: Arc<Connection>,
        cookie: u64,
        replies: Replies,
        held: Held,
        is_read: bool,
    ) -> Ticket {
        Ticket { connection: Some(connection), cookie, replies, held, is_read, whole: None }
    }

    /// It is for a piece of a request: only the last piece is answered.
    pub(crate) fn part_of(&mut self, whole: &Arc<Parts<NbdError>>) {
        self.whole = Some(Arc::clone(whole));
    }

    fn write(
        &self,
        connection: &Connection,
        outcome: Result<(), NbdError>,
        extent: Extent,
        data: Buffer,
    ) {
        let ended = self.whole.as_ref().map_or(Some(outcome), |whole| whole.done(outcome));
        let Some(outcome) = ended else { return connection.forget(self.held) };
        let (replies, cookie, len) = (self.replies, self.cookie, data.len() as u32);
        connection.answer(self.held, data, |head| match outcome {
            Ok(()) if self.is_read => {
                replies.read(head, cookie, extent.offset().get(), len);
                true
            }
            Ok(()) => {
                replies.done(head, cookie);
                false
            }
            Err(error) => {
                replies.error(head, cookie, error);
                false
            }
        });
    }
}

impl Answer for Ticket {
    fn answer(mut self: Box<Self>, answered: Answered, touched: &mut Touched) {
        let Answered { outcome, extent, data, .. } = answered;
        let connection = self.connection.take().expect("answered once");
        self.write(&connection, nbd_outcome(outcome), extent, data);
        touched.add(connection);
    }

    fn may_wait_here(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.is_patient())
    }

    /// Only the connection's own thread may call this, and only when it has submitted all that it
    /// gathered.
    fn answer_from_file(mut self: Box<Self>, file: BorrowedFd<'_>, extent: Extent) {
        let connection = self.connection.take().expect("answered once");
        let (offset, len) = (extent.offset().get(), extent.len().get());
        // The group of the gathered requests may be removed from now on, however long this waits.
        connection.payer.end();
        connection.answer_and_wait(self.held, Data::File(file, offset, len), |head| {
            self.replies.read(head, self.cookie, offset, len as u32);
        });
    }
}

impl Drop for Ticket {
    /// A ticket that nobody answered is a bug. Tests hear of it; a client gets an error.
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else {
            return;
        };
        self.write(&connection, Err(NbdError::Io), Extent::EMPTY, Buffer::default());
        connection.send();
        debug_assert!(std::thread::panicking(), "a request was dropped unanswered");
        tracing::error!(cookie = self.cookie, "a request was dropped unanswered");
    }
}

impl Client for Connection {
    fn send(self: Arc<Self>) {
        Connection::send(&self);
    }

    fn send_some(self: Arc<Self>) {
        Connection::send_some(&self);
    }
}

/// The NBD error for how the engine says that a request ended.
///
/// # Errors
/// The error, unless it was carried out.
pub fn nbd_outcome(outcome: Outcome) -> Result<(), NbdError> {
    match outcome {
        Outcome::Ok => Ok(()),
        // The table is full: the client may try again.
        Outcome::Refused => Err(NbdError::NoMemory),
        Outcome::Failed(error) => Err(match error {
            DiskError::Io => NbdError::Io,
            DiskError::NoSpace => NbdError::NoSpace,
            DiskError::Gone => NbdError::Shutdown,
            DiskError::NotPermitted => NbdError::NotPermitted,
            DiskError::Unsupported => NbdError::NotSupported,
        }),
    }
}
