//! The file of an export: what is done with it becomes requests for the device.

use super::payers::Payers;
use crate::answer::Answer;
use crate::answer::Progress;
use crate::buffer::Buffer;
use crate::device::Device;
use crate::device::pieces::{PIECE_BYTES, pieces};
use crate::fuse::caller::Caller;
use crate::fuse::inflight_operations::Touch;
use crate::fuse::pending_replies::{Kept, PendingReplies, Reply, Whole};
use crate::io::target::Target;
use crate::job::Job;
use iopace_core::request::{Cover, Extent, Op, Space};
use iopace_core::units::Bytes;
use iopace_fuse::{Errno, ReplyData, ReplyEmpty, ReplyLseek, ReplyWrite};
use rustix::fs::FallocateFlags;
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

thread_local! {
    /// Room for what the page cache has, for each thread that serves the kernel.
    static SCRATCH: RefCell<Buffer> = RefCell::new(Buffer::default());
}

/// An export as a file.
pub(super) struct ImageFile {
    /// Its name.
    pub(super) name: String,
    /// Whether writes are refused.
    pub(super) read_only: bool,
    /// Whether a trim leaves zeroes behind.
    punches: bool,
    device: Arc<dyn Device>,
    payers: Payers,
    pending: Arc<PendingReplies>,
}

impl ImageFile {
    /// The file of an export on that device.
    pub(super) fn new(
        (name, read_only): (&str, bool),
        device: &Arc<dyn Device>,
        payers: Payers,
        pending: &Arc<PendingReplies>,
    ) -> ImageFile {
        let info = device.info();
        ImageFile {
            name: name.to_owned(),
            read_only: read_only || info.read_only,
            punches: match &info.path {
                None => true,
                Some(path) => info.kind != "block device" && punches(path),
            },
            device: Arc::clone(device),
            payers,
            pending: Arc::clone(pending),
        }
    }

    /// Its size in bytes.
    pub(super) fn size(&self) -> u64 {
        self.device.size_bytes()
    }

    /// Smallest request in bytes.
    pub(super) fn block(&self) -> u32 {
        self.device.info().block_bytes.0
    }

    /// Who pays.
    pub(super) fn payers(&self) -> &Payers {
        &self.payers
    }

    /// What of a range is within the device; `None` if nothing is.
    fn extent(&self, offset: u64, len: u64) -> Option<Extent> {
        let len = len.min(self.size().checked_sub(offset)?);
        (len > 0).then(|| Extent::new(Bytes(offset), Bytes(len)).expect("within the device"))
    }

    /// Whether a direct device takes it.
    fn is_aligned(&self, extent: Extent) -> bool {
        let block = u64::from(self.block());
        (extent.offset().get() | extent.len().get()).is_multiple_of(block)
    }

    fn hold(&self, from: Caller, reply: Reply) -> Box<dyn Answer> {
        Box::new(self.pending.hold((from, Touch::NOTHING), reply, None))
    }

    /// Hands requests to the device, all with the same payer.
    fn submit(
        &self,
        from: Caller,
        op: Op,
        all: Vec<(Extent, Box<dyn Answer>)>,
        data: (Buffer, bool),
    ) {
        let (task, pays) = self.payers.of(from);
        let (mut buffer, fua) = data;
        let make = |(extent, ticket)| Job {
            task,
            group: pays.group(),
            op,
            extent,
            space: Space::DISK,
            cover: Cover::All,
            fua,
            buffer: std::mem::take(&mut buffer),
            target: None,
            progress: Progress::default(),
            ticket,
        };
        self.device.submit(&mut all.into_iter().map(make).collect());
    }

    /// Reads; fewer bytes only at the end.
    pub(super) fn read(&self, from: Caller, offset: u64, len: u32, reply: ReplyData) {
        let Some(extent) = self.extent(offset, u64::from(len)) else { return reply.data(&[]) };
        if !self.is_aligned(extent) {
            return reply.error(Errno::EINVAL);
        }
        let (_, pays) = self.payers.of(from);
        let rest = SCRATCH.with_borrow_mut(|scratch| {
            let len = extent.len().get() as usize;
            if scratch.len() < len {
                scratch.resize(len);
            }
            let into = &mut scratch.as_mut_slice()[..len];
            if self.device.read_cached(pays.group(), extent, into) {
                reply.data(into);
                return None;
            }
            Some(reply)
        });
        let Some(reply) = rest else { return };
        let ticket = self.hold(from, Reply::Data(reply, Kept::Direct));
        self.submit(from, Op::Read, vec![(extent, ticket)], (Buffer::default(), false));
    }

    /// Writes what is within the device; behind its end there is no space.
    pub(super) fn write(
        &self,
        from: Caller,
        (offset, data): (u64, &[u8]),
        durable: bool,
        reply: ReplyWrite,
    ) {
        if self.read_only {
            return reply.error(Errno::EROFS);
        }
        if data.is_empty() {
            return reply.written(0);
        }
        let Some(extent) = self.extent(offset, data.len() as u64) else {
            return reply.error(Errno::ENOSPC);
        };
        if !self.is_aligned(extent) {
            return reply.error(Errno::EINVAL);
        }
        let data = &data[..extent.len().get() as usize];
        let ticket = self.hold(from, Reply::WholeWrite(reply, data.len() as u32));
        self.submit(from, Op::Write, vec![(extent, ticket)], (Buffer::from(data), durable));
    }

    /// Somebody opens it: what his syncs are carried out on, see [`Device::flushed_by_client`].
    pub(super) fn open(&self) -> Option<Target> {
        self.device.flushed_by_client()
    }

    /// Makes the whole device durable.
    pub(super) fn sync(&self, from: Caller, target: Option<Target>, reply: ReplyEmpty) {
        let ticket = self.hold(from, Reply::Done(reply));
        let (task, pays) = self.payers.of(from);
        let job = Job {
            task,
            group: pays.group(),
            op: Op::Flush,
            extent: Extent::EMPTY,
            space: Space::DISK,
            cover: Cover::All,
            fua: false,
            buffer: Buffer::default(),
            target,
            progress: Progress::default(),
            ticket,
        };
        self.device.submit(&mut vec![job]);
    }

    /// Holes and zeroes; the size stays.
    pub(super) fn allocate(
        &self,
        from: Caller,
        (offset, len): (u64, u64),
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if self.read_only {
            return reply.error(Errno::EROFS);
        }
        let flags = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        let is_punch = flags.contains(FallocateFlags::PUNCH_HOLE);
        let known = FallocateFlags::KEEP_SIZE
            | if is_punch { FallocateFlags::PUNCH_HOLE } else { FallocateFlags::ZERO_RANGE };
        let is_known = (flags & !known).is_empty() && flags != FallocateFlags::KEEP_SIZE;
        if !is_known || flags.is_empty() {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let is_beyond = offset.checked_add(len).is_none_or(|end| end > self.size());
        if is_beyond && !flags.contains(FallocateFlags::KEEP_SIZE) {
            return reply.error(Errno::EFBIG);
        }
        let Some(extent) = self.extent(offset, len) else { return reply.ok() };
        // What was a hole reads as zeroes: where a trim is but a hint, they are written.
        let op = if is_punch && self.punches { Op::Trim } else { Op::WriteZeroes };
        if op == Op::Trim || extent.len().get() <= PIECE_BYTES {
            let ticket = self.hold(from, Reply::Done(reply));
            return self.submit(from, op, vec![(extent, ticket)], (Buffer::default(), false));
        }
        let pieces = pieces(extent);
        let whole = Whole::new(pieces.len(), reply);
        let ticket = || self.hold(from, Reply::Piece(Arc::clone(&whole)));
        let all = pieces.into_iter().map(|piece| (piece, ticket())).collect();
        self.submit(from, op, all, (Buffer::default(), false));
    }

    /// Where the next data, or the next hole, begins (`SEEK_DATA`, `SEEK_HOLE`).
    pub(super) fn seek(&self, offset: i64, whence: i32, reply: ReplyLseek) {
        let is_hole = match whence {
            libc::SEEK_DATA => false,
            libc::SEEK_HOLE => true,
            _ => return reply.error(Errno::EINVAL),
        };
        let size = self.size();
        let Some(mut at) = u64::try_from(offset).ok().filter(|at| *at < size) else {
            return reply.error(Errno::ENXIO);
        };
        while let Some(extent) = self.extent(at, u64::MAX) {
            let pieces = match self.device.allocation(extent) {
                Ok(pieces) => pieces,
                Err(error) => return reply.error(error.into()),
            };
            for piece in pieces {
                if piece.is_hole == is_hole {
                    return reply.offset(at.cast_signed());
                }
                at += piece.len_bytes;
            }
        }
        // Behind the last data there is a hole, but behind the last hole there are no data.
        if is_hole { reply.offset(size.cast_signed()) } else { reply.error(Errno::ENXIO) }
    }
}

/// Whether the file system of a file can punch holes. It is tried behind the end of the file, where
/// there is nothing to lose.
fn punches(path: &Path) -> bool {
    let Ok(file) = std::fs::File::options().write(true).open(path) else { return false };
    let end = file.metadata().map_or(0, |found| found.len()).next_multiple_of(1 << 20);
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, flags, end, 1 << 20).is_ok()
}
