//! Writes: into the page cache below, past it, and those of mappings.

use super::super::caller::Caller;
use super::super::inflight_operations::Touch;
use super::super::pending_replies::{Reply, Room};
use super::super::tree::data::{LateWrite, Opened, WriteMode};
use super::Scheduled;
use crate::buffer::Buffer;
use crate::clock;
use crate::io::file::File;
use crate::io::target::Target;
use crate::limits::FUSE_SHORT_WRITE_BYTES;
use iopace_core::request::{Extent, GroupId, Op, TaskId};
use iopace_core::units::Bytes;
use iopace_fuse::{Errno, ReplyWrite};
use rustix::fs::OFlags;
use std::io;
use std::sync::Arc;

/// A write as it came.
pub(super) struct Write<'a> {
    pub(super) who: (TaskId, GroupId),
    pub(super) data: &'a [u8],
    /// What was taken for the data before, if it had to wait.
    pub(super) room: Option<Room>,
    pub(super) target: Target,
    pub(super) durable: bool,
}

impl Scheduled {
    /// A direct write may be short, as [`Scheduled::write_through`] has it. Others the kernel takes
    /// for failed then: of those there is one for each file that waits, and what the kernel writes
    /// of mappings it bounds itself.
    pub(super) fn room_of(
        &self,
        file: &Opened,
        mode: WriteMode,
        len: usize,
    ) -> (usize, Option<Room>) {
        match Room::take(&self.memory, len as u64) {
            None if file.file.is_direct() && !mode.mapped => {
                (len.min(FUSE_SHORT_WRITE_BYTES), None)
            }
            room => (len, room),
        }
    }

    /// A write that bypasses the page cache, or that is durable when it is answered.
    pub(super) fn write_through(
        &self,
        from: Caller,
        file: &Opened,
        write: Write<'_>,
        late: &LateWrite<'_>,
    ) {
        let Write { who, mut data, room, mut target, durable } = write;
        let room = room.or_else(|| Room::take(&self.memory, data.len() as u64));
        if room.is_none() && file.file.is_direct() {
            data = &data[..data.len().min(FUSE_SHORT_WRITE_BYTES)];
        } else if room.is_none() {
            // No memory is left for its data: into the page cache with it, it waits there.
            if let Err(error) = target.write_from(0, data.len() as u64, false, data) {
                self.tell_failed(data.len(), &error.1);
                return answer(late, data.len(), Err(error));
            }
            target.is_written = true;
        }
        let len = data.len() as u32;
        let area = self.place(file, target.offset, u64::from(len));
        let is_written = target.is_written;
        let Some(reply) = late.take() else { return };
        let from = (from, Touch::one(file.inode.id()));
        let ticket = self.hold(from, Reply::Write(reply, len), room);
        let mut job = self.job(who, Op::Write, area, (Some(target), ticket));
        job.fua = durable;
        if !is_written {
            job.buffer = Buffer::from(data);
        }
        self.submit(job);
    }

    /// A write into the page cache: at once, or when stage pace lets it.
    pub(super) fn write_buffered(
        &self,
        from: Caller,
        file: &Opened,
        write: Write<'_>,
        late: &LateWrite<'_>,
    ) {
        let Write { who: (task, group), data, room, mut target, .. } = write;
        target.space = self.keep(file).map(|space| space as _);
        let len = data.len() as u32;
        let area = self.dirty_place(file, target.offset, u64::from(len));
        let touch = Touch::one(file.inode.id());
        let room = room.or_else(|| Room::take(&self.memory, data.len() as u64));
        let Some(room) = room else {
            // As above. The pause comes after the write then, as in the kernel.
            if let Err(error) = target.write_from(0, u64::from(len), false, data) {
                self.tell_failed(data.len(), &error.1);
                return answer(late, data.len(), Err(error));
            }
            target.is_written = true;
            let Some(reply) = late.take() else { return };
            let ticket = self.hold((from, touch), Reply::Write(reply, len), None);
            return self.submit(self.job((task, group), Op::Write, area, (Some(target), ticket)));
        };
        let mut room = Some(room);
        let at_once = self.device.write_at_once((task, group, area), (data, &target), &mut || {
            let reply = late.take().map(|reply| Reply::Write(reply, len));
            let ticket = self.hold((from, touch), reply, room.take());
            let target = target.clone();
            let mut job = self.job((task, group), Op::Write, area, (Some(target), ticket));
            job.buffer = Buffer::from(data);
            job
        });
        if let Some(result) = at_once {
            answer(late, data.len(), result);
        }
    }

    /// An operator is told of a write that failed here, past the device.
    fn tell_failed(&self, len: usize, error: &io::Error) {
        let extent = Extent::new(Bytes::ZERO, Bytes(len as u64)).expect("far below 2^64");
        self.device.look(&mut |_, events| events.write_failed(clock::now(), extent, error));
    }

    /// The kernel writes pages of a mapping by itself. Whoever waits for that cannot be killed, and
    /// it may be short of memory: they are written at once, and counted when stage pace lets it.
    pub(super) fn write_mapped(&self, file: &Opened, write: Write<'_>, late: &LateWrite<'_>) {
        let Write { who, data, mut target, .. } = write;
        if let Err(error) = through_the_cache(file, &mut target) {
            return answer(late, data.len(), Err((0, error)));
        }
        target.space = self.keep(file).map(|space| space as _);
        let written = target.write_from(0, data.len() as u64, false, data);
        let is_written = written.is_ok();
        if let Err((_, error)) = &written {
            self.tell_failed(data.len(), error);
        }
        answer(late, data.len(), whole(written));
        let room = Room::take(&self.mapped, data.len() as u64);
        if let Some(room) = room.filter(|_| is_written) {
            target.is_written = true;
            let area = self.dirty_place(file, target.offset, data.len() as u64);
            let ticket = Box::new(room);
            self.submit(self.job(who, Op::Write, area, (Some(target), ticket)));
        }
    }
}

/// Pages of a mapping come in any size, also through a descriptor that was opened for whole blocks
/// only: they are written through another one.
pub(super) fn through_the_cache(file: &Opened, target: &mut Target) -> io::Result<()> {
    if file.file.is_direct() {
        let buffered = file.inode.reopen(OFlags::WRONLY)?;
        target.file = Arc::new(File::of_tree(buffered, false).holding(&file.inode.hold));
    }
    Ok(())
}

/// Pages of a mapping are written as a whole or not: the kernel does not look at how many bytes
/// were, and would take those that are missing for written.
pub(super) fn whole(written: Result<(), (u64, io::Error)>) -> Result<(), (u64, io::Error)> {
    written.map_err(|(_, error)| (0, error))
}

/// Answers a write of so many bytes that was carried out, if anybody still waits for that.
pub(super) fn answer(late: &LateWrite<'_>, len: usize, result: Result<(), (u64, io::Error)>) {
    if let Some(reply) = late.take() {
        give(reply, len, result);
    }
}

/// The same of one that nobody gives up.
pub(super) fn give(reply: ReplyWrite, len: usize, result: Result<(), (u64, io::Error)>) {
    match result {
        Ok(()) => reply.written(len as u32),
        Err((0, error)) => reply.error(Errno::from_i32(error.raw_os_error().unwrap_or(libc::EIO))),
        Err((written, _)) => reply.written(written as u32),
    }
}
