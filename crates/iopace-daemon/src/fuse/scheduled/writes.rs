//! Writes: into the page cache below, past it, and those of mappings.

use super::super::data::{Caller, Opened};
use super::super::held::{Reply, Room};
use super::super::running::Late;
use super::Scheduled;
use crate::buffer::Buffer;
use crate::io::file::File;
use crate::io::target::Target;
use crate::job::Ticket;
use crate::limits::FUSE_SHORT_WRITE_BYTES;
use fuser::{Errno, ReplyWrite};
use iopace_core::request::{GroupId, Op, TaskId};
use rustix::fs::OFlags;
use std::io;
use std::sync::Arc;

/// The reply of a write that is being carried out.
pub(super) type LateWrite<'a> = Late<'a, ReplyWrite>;

/// A write as it came.
pub(super) struct Write<'a> {
    pub(super) who: (TaskId, GroupId),
    pub(super) data: &'a [u8],
    pub(super) target: Target,
    pub(super) durable: bool,
}

impl Scheduled {
    /// A write that bypasses the page cache, or that is durable when it is answered.
    pub(super) fn write_through(
        &self,
        from: Caller,
        file: &Opened,
        write: Write<'_>,
        late: &LateWrite<'_>,
    ) {
        let Write { who, mut data, mut target, durable } = write;
        let room = Room::take(&self.memory, data.len() as u64);
        if room.is_none() && file.file.is_direct() {
            data = &data[..data.len().min(FUSE_SHORT_WRITE_BYTES)];
        } else if room.is_none() {
            // No memory is left for its data: into the page cache with it, it waits there.
            if let Err(error) = target.write_from(0, data.len() as u64, false, data) {
                return answer(late, data.len(), Err(error));
            }
            target.is_written = true;
        }
        let len = data.len() as u32;
        let extent = self.place(file, target.offset, u64::from(len));
        let is_written = target.is_written;
        let Some(reply) = late.take() else { return };
        let ticket = self.hold(from, Reply::Write(reply, len), room);
        let mut job = self.job(who, Op::Write, extent, (Some(target), ticket));
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
        let Write { who: (task, group), data, mut target, .. } = write;
        target.region = self.keep(file);
        let len = data.len() as u32;
        let extent = self.dirty_place(file, target.offset, u64::from(len));
        let Some(room) = Room::take(&self.memory, data.len() as u64) else {
            // As above. The pause comes after the write then, as in the kernel.
            if let Err(error) = target.write_from(0, u64::from(len), false, data) {
                return answer(late, data.len(), Err(error));
            }
            target.is_written = true;
            let Some(reply) = late.take() else { return };
            let ticket = self.hold(from, Reply::Write(reply, len), None);
            return self.submit(self.job((task, group), Op::Write, extent, (Some(target), ticket)));
        };
        let mut room = Some(room);
        let at_once =
            self.device.write_at_once((task, group, extent), (data, &target), &mut || {
                let reply = late.take().map(|reply| Reply::Write(reply, len));
                let ticket = self.hold(from, reply, room.take());
                let target = target.clone();
                let mut job = self.job((task, group), Op::Write, extent, (Some(target), ticket));
                job.buffer = Buffer::from(data);
                job
            });
        if let Some(result) = at_once {
            answer(late, data.len(), result);
        }
    }

    /// The kernel writes pages of a mapping by itself. Whoever waits for that cannot be killed, and
    /// it may be short of memory: they are written at once, and counted when stage pace lets it.
    pub(super) fn write_mapped(&self, file: &Opened, write: Write<'_>, late: &LateWrite<'_>) {
        let Write { who, data, mut target, .. } = write;
        if file.file.is_direct() {
            // It was opened for whole blocks only.
            match file.inode.reopen(OFlags::WRONLY) {
                Ok(buffered) => target.file = Arc::new(File::of_tree(buffered, false)),
                Err(error) => return answer(late, data.len(), Err((0, error))),
            }
        }
        target.region = self.keep(file);
        let written = target.write_from(0, data.len() as u64, false, data);
        let is_written = written.is_ok();
        answer(late, data.len(), written);
        let room = Room::take(&self.mapped, data.len() as u64);
        if let Some(room) = room.filter(|_| is_written) {
            target.is_written = true;
            let extent = self.dirty_place(file, target.offset, data.len() as u64);
            let ticket = Ticket::Nobody(room);
            self.submit(self.job(who, Op::Write, extent, (Some(target), ticket)));
        }
    }
}

/// Answers a write of so many bytes that was carried out, if anybody still waits for that.
fn answer(late: &LateWrite<'_>, len: usize, result: Result<(), (u64, io::Error)>) {
    let Some(reply) = late.take() else { return };
    match result {
        Ok(()) => reply.written(len as u32),
        Err((0, error)) => reply.error(Errno::from_i32(error.raw_os_error().unwrap_or(libc::EIO))),
        Err((written, _)) => reply.written(written as u32),
    }
}
