//! A request on its way through a device: what to do, where, and who must hear of its end.

use crate::buffer::Buffer;
use crate::fuse::held;
use crate::io::target::Target;
use crate::nbd::reply::{self, Touched};
use iopace_core::engine::Input;
use iopace_core::request::{
    Area, Cover, DiskError, Extent, GroupId, Op, Outcome, Space, Submit, Tag, TaskId,
};
use std::io;

/// A request from a client, for a device.
#[derive(Debug)]
pub struct Job {
    /// Who calls.
    pub task: TaskId,
    /// Who pays; it stays so, whatever becomes of the caller.
    pub group: GroupId,
    /// What to do.
    pub op: Op,
    /// Where, as the engine sees it; nothing for a flush.
    pub extent: Extent,
    /// Of what: of the disk, or of a file whose place on it is not known.
    pub space: Space,
    /// What a flush covers.
    pub cover: Cover,
    /// Durable before it is answered.
    pub fua: bool,
    /// The data of a write; room for the data of a read once the device needs it.
    pub buffer: Buffer,
    /// The file that it is carried out on, if that is not the device's own.
    pub target: Option<Target>,
    /// How far it has come, and what the system said if it failed.
    pub progress: Progress,
    /// The answer it must get.
    pub ticket: Ticket,
}

/// What became of a request besides its outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of a write that were written before an error.
    pub written: u64,
    /// What was to be copied ends there: no error.
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

/// The right and the duty to answer one request, by who asked.
#[derive(Debug)]
pub enum Ticket {
    /// A client's, over NBD.
    Nbd(reply::Ticket),
    /// A program's, through a mount.
    Fuse(held::Ticket),
    /// Nobody's: the kernel has written pages of a mapping, and had its answer. So much is counted.
    Nobody(held::Room),
}

impl Job {
    /// Answers the request: with its data if it was read, or with the error.
    pub fn finish(self, outcome: Outcome, touched: &mut Touched) {
        match self.ticket {
            Ticket::Nbd(ticket) => {
                ticket.answer(reply::nbd_outcome(outcome), self.extent, self.buffer, touched);
            }
            Ticket::Fuse(ticket) => ticket.answer(outcome, self.progress, &self.buffer),
            Ticket::Nobody(_) => {}
        }
    }

    /// It comes, in the words of an engine, under this name: through the page cache if `buffered`.
    pub(crate) fn input(&self, tag: Tag, buffered: bool) -> Input {
        let Job { task, group, op, extent, space, fua, cover, .. } = *self;
        if buffered && op == Op::Write && !fua && !self.is_direct() && !extent.is_empty() {
            let area = Area { space, extent };
            return Input::Dirtied { tag, task, group, area };
        }
        let submit = self.submit(tag);
        match op {
            Op::Flush => Input::Flush(submit, cover),
            _ => Input::SubmitIn(space, submit),
        }
    }

    /// The request for the disk, under this name.
    pub(crate) fn submit(&self, tag: Tag) -> Submit {
        let Job { task, group, op, extent, fua, .. } = *self;
        Submit { tag, task, group, op, extent, fua, sync: true }
    }

    /// Who waits for it, if he may be killed meanwhile.
    pub(crate) fn waiter(&self) -> Option<held::Waiter> {
        match &self.ticket {
            Ticket::Fuse(ticket) => Some(ticket.waiter()),
            Ticket::Nbd(_) | Ticket::Nobody(_) => None,
        }
    }

    /// It is carried out from now on. False if nobody waits for it any more: then it must not be,
    /// as others may have written there in the meantime.
    pub(crate) fn begin(&self) -> bool {
        match &self.ticket {
            Ticket::Fuse(ticket) => ticket.waiter().begin(),
            Ticket::Nbd(_) | Ticket::Nobody(_) => true,
        }
    }

    /// Whether it bypasses the page cache, whatever the device does.
    pub(crate) fn is_direct(&self) -> bool {
        self.target.as_ref().is_some_and(Target::is_direct)
    }
}

/// What an operating-system error means to the engine.
pub fn disk_error(error: &io::Error) -> DiskError {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => DiskError::NoSpace,
        Kind::PermissionDenied | Kind::ReadOnlyFilesystem => DiskError::NotPermitted,
        Kind::Unsupported => DiskError::Unsupported,
        _ if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
            DiskError::Gone
        }
        _ => DiskError::Io,
    }
}
