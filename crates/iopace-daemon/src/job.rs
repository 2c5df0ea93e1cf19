//! A request on its way through a device: what to do, where, and who must hear of its end.

use crate::answer::{Answer, Answered, Progress, Touched, Waiter};
use crate::buffer::Buffer;
use crate::io::target::Target;
use iopace_core::engine::Input;
use iopace_core::request::{
    Area, Cover, DiskError, Extent, GroupId, Op, Outcome, Space, Submit, Tag, TaskId,
};
use std::io;
use std::sync::Arc;

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
    pub ticket: Box<dyn Answer>,
}

impl Job {
    /// Answers the request: with its data if it was read, or with the error.
    pub fn finish(self, outcome: Outcome, touched: &mut Touched) {
        let Job { extent, progress, buffer: data, ticket, .. } = self;
        ticket.answer(Answered { outcome, extent, progress, data }, touched);
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
    pub(crate) fn waiter(&self) -> Option<Arc<dyn Waiter>> {
        self.ticket.waiter()
    }

    /// It is carried out from now on. False if nobody waits for it any more: then it must not be,
    /// as others may have written there in the meantime.
    pub(crate) fn begin(&self) -> bool {
        self.ticket.begin()
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
