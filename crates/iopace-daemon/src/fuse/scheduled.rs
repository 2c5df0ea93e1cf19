//! The data of files through a device: who asks, where it lies, and may it go on now.
//!
//! ```text
//!  read   in the page cache below: answered here; else a request where the file lies (extents.rs)
//!  write  buffered: stage pace, then into the page cache below; dirty in the space of its file
//!         direct:   a request
//!  sync   a flush of the file's space: waits for the write-back of this file and of no other
//! ```
//! On an emulated disk all of it goes to the machine, where the file lies in a layout of our own.

mod aside;
mod operations;
mod writes;

use super::caller::{Caller, Operation};
use super::file_spaces::{FileSpace, FileSpaces};
use super::inflight_operations::{InflightOperations, Touch};
use super::layout::Layout;
use super::pending_replies::{Kept, PendingReplies, Reply, Room, Whole};
use super::tree::data::{Data, Kind, LateWrite, Opened, WriteMode};
use super::tree::file_state::FileState;
use super::tree::inode::Inode;
use super::who::Who;
use crate::answer::Answer;
use crate::answer::Progress;
use crate::buffer::Buffer;
use crate::device::Device;
use crate::io::file::File;
use crate::io::past_cache::PastCache;
use crate::io::target::Target;
use crate::job::Job;
use crate::limits::{FUSE_DIRECT_READ_MIN, FUSE_MAPPED_BYTES_MAX};
use crate::memory::Memory;
use aside::copy_aside;
use iopace_core::request::{Area, Cover, Extent, GroupId, Op, TaskId};
use iopace_core::units::Bytes;
use iopace_fuse::{ReplyData, ReplyEmpty};
use rustix::fs::OFlags;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
use writes::Write;

/// Most bytes of one `copy_file_range`: the call may copy less than it was asked to, and whoever
/// asked can be killed in between.
const COPY_MAX: u64 = 16 << 20;

/// Direct I/O of any disk is in multiples of this, and so are the kernel's own reads.
const PAGE: u64 = 4096;

thread_local! {
    /// Room for what the page cache has, for each thread that serves the kernel.
    static SCRATCH: RefCell<Buffer> = RefCell::new(Buffer::default());
}

/// How the files of a mount are placed before its engine.
#[derive(Clone, Debug)]
pub(crate) enum Placement {
    /// Where they lie on their disk, and each in a space of its own as long as it is dirty.
    Real(Arc<FileSpaces>),
    /// On an emulated disk.
    Emulated(Arc<Layout>),
}

/// The data of a mount.
pub(crate) struct Scheduled {
    device: Arc<dyn Device>,
    placement: Placement,
    who: Arc<Who>,
    pending: Arc<PendingReplies>,
    /// What is carried out by the threads that received it.
    inflight: Arc<InflightOperations>,
    /// What the data of held writes takes.
    memory: Arc<Memory>,
    /// What was written through mappings and is not counted yet.
    mapped: Arc<Memory>,
    /// Requests that were passed through.
    passed_count: Arc<AtomicU64>,
}

impl Scheduled {
    /// Through that device; held writes may take so many bytes.
    pub(crate) fn new(
        device: Arc<dyn Device>,
        placement: Placement,
        who: Arc<Who>,
        ((pending, memory_max), inflight): ((Arc<PendingReplies>, u64), Arc<InflightOperations>),
        passed_count: Arc<AtomicU64>,
    ) -> Scheduled {
        let memory = Arc::new(Memory::new(memory_max));
        let mapped = Arc::new(Memory::new(FUSE_MAPPED_BYTES_MAX));
        Scheduled { device, placement, who, pending, inflight, memory, mapped, passed_count }
    }

    /// Reads from the page cache below, if all of it is there: how much that is.
    fn cached(&self, group: GroupId, file: &Opened, offset: u64, into: &mut [u8]) -> Option<usize> {
        let is_emulated = matches!(self.placement, Placement::Emulated(_));
        if is_emulated || file.file.is_direct() || self.device.is_limited(group) {
            return None;
        }
        let count = file.file.read_cached_to_end(into, offset).ok()?;
        self.device.read_by_caller();
        Some(count)
    }

    /// Where a piece of a file lies that is on the disk, or will be.
    fn place(&self, file: &Opened, offset: u64, len: u64) -> Area {
        let state = &file.inode.state;
        match &self.placement {
            Placement::Real(spaces) => {
                let mut extents = state.extents.lock().unwrap_or_else(PoisonError::into_inner);
                let place = extents.place(file.file.fd(), offset);
                let extent = place.and_then(|place| Extent::new(Bytes(place), Bytes(len)));
                // A file system that does not say: every file by itself.
                extent.map_or_else(|| space(spaces, state).area(offset, len), Area::from)
            }
            Placement::Emulated(layout) => emulated(layout, file, offset, len),
        }
    }

    /// The file for a read past the page cache below, if it is large and nothing of it is there:
    /// the kernel keeps it in the cache above, so one copy of it is enough.
    fn past_cache(&self, file: &Opened, (offset, len): (u64, u32)) -> Option<Arc<PastCache>> {
        let is_real = matches!(self.placement, Placement::Real(_));
        let is_large = len >= FUSE_DIRECT_READ_MIN && offset.is_multiple_of(PAGE);
        if !is_real || !is_large || !file.file.is_uncached(offset, u64::from(len)) {
            return None;
        }
        file.past_cache()
    }

    /// Where a piece of a file is dirty once it is written.
    fn dirty_place(&self, file: &Opened, offset: u64, len: u64) -> Area {
        match &self.placement {
            Placement::Real(spaces) => space(spaces, &file.inode.state).area(offset, len),
            Placement::Emulated(layout) => emulated(layout, file, offset, len),
        }
    }

    /// A file is written: it is kept open until its dirty pages are on the disk. What is returned
    /// sees to that until the write is done.
    fn keep(&self, file: &Opened) -> Option<Arc<FileSpace>> {
        if let Placement::Real(spaces) = &self.placement {
            let space = space(spaces, &file.inode.state);
            spaces.keep(&space, || {
                let readable = file.inode.reopen(OFlags::RDONLY);
                let opened = readable.or_else(|_| file.inode.reopen(OFlags::WRONLY))?;
                let opened = File::of_tree_unread(opened, false).holding(&file.inode.hold);
                Ok(opened.telling(&file.inode.state.untold))
            });
            return Some(space);
        }
        None
    }

    fn job(
        &self,
        (task, group): (TaskId, GroupId),
        op: Op,
        Area { space, extent }: Area,
        (target, ticket): (Option<Target>, Box<dyn Answer>),
    ) -> Job {
        Job {
            task,
            group,
            op,
            extent,
            space,
            cover: Cover::All,
            fua: false,
            buffer: Buffer::default(),
            target,
            progress: Progress::default(),
            ticket,
        }
    }

    fn hold(
        &self,
        (from, touch): (Caller, Touch),
        reply: impl Into<Option<Reply>>,
        room: Option<Room>,
    ) -> Box<dyn Answer> {
        Box::new(self.pending.hold((from, touch), reply, room))
    }
}

/// The space of a file.
fn space(spaces: &Arc<FileSpaces>, state: &FileState) -> Arc<FileSpace> {
    Arc::clone(state.space.get_or_init(|| spaces.add()))
}

fn emulated(layout: &Layout, file: &Opened, offset: u64, len: u64) -> Area {
    let size = rustix::fs::fstat(file.file.fd()).map_or(0, |stat| stat.st_size);
    layout.place(&file.inode.state.chunks, size.cast_unsigned(), offset, len).into()
}

impl Data for Scheduled {
    fn read(
        &self,
        from: Caller,
        file: &Arc<Opened>,
        (offset, len): (u64, u32),
        kept: Kept,
        reply: ReplyData,
    ) {
        if file.is_aside {
            return self.read_aside(from, file, (offset, len), reply);
        }
        let pays = self.who.of(from);
        let rest = SCRATCH.with_borrow_mut(|scratch| {
            if scratch.len() < len as usize {
                scratch.resize(len as usize);
            }
            let into = &mut scratch.as_mut_slice()[..len as usize];
            match self.cached(pays.group(), file, offset, into) {
                Some(count) => {
                    reply.data(&into[..count]);
                    None
                }
                None => Some(reply),
            }
        });
        let Some(reply) = rest else { return };
        // Asking where it lies may need the disk.
        let late = self.inflight.begin_look(from.pid, reply);
        let area = self.place(file, offset, u64::from(len));
        let past_cache = self.past_cache(file, (offset, len));
        let Some(reply) = late.take() else { return };
        let mut target = Target::new(Arc::clone(&file.file), offset);
        target.past_cache = past_cache;
        let ticket = self.hold((from, Touch::NOTHING), Reply::Data(reply, kept), None);
        let who = (pays.task(), pays.group());
        self.submit(self.job(who, Op::Read, area, (Some(target), ticket)));
    }

    fn write(
        &self,
        from: Caller,
        file: &Arc<Opened>,
        offset: u64,
        (data, room): (&[u8], Option<Room>),
        mode: WriteMode,
        late: &LateWrite<'_>,
    ) {
        let pays = self.who.of(from);
        let who = (pays.task(), pays.group());
        let durable = mode.durable || file.durable;
        let mut target = Target::new(Arc::clone(&file.file), offset);
        target.append = mode.append;
        target.full_sync = mode.full_sync;
        let write = Write { who, data, room, target, durable };
        if file.is_aside {
            self.write_aside(file, write, mode.mapped, late);
        } else if mode.mapped {
            self.write_mapped(file, write, late);
        } else if file.file.is_direct() || durable {
            self.write_through(from, file, write, late);
        } else {
            self.write_buffered(from, file, write, late);
        }
    }

    fn room(&self, file: &Opened, mode: WriteMode, len: usize) -> (usize, Option<Room>) {
        self.room_of(file, mode, len)
    }

    fn sync(&self, from: Caller, file: &Arc<Opened>, data_only: bool, reply: ReplyEmpty) {
        if file.is_aside {
            return self.sync_aside(from, file, data_only, reply);
        }
        let pays = self.who.of(from);
        let state = &file.inode.state;
        let areas: Vec<Area> = match &self.placement {
            Placement::Real(_) => {
                state.space.get().map(|space| space.whole()).into_iter().collect()
            }
            Placement::Emulated(layout) => {
                layout.unclean(&state.chunks, |chunks| self.device.are_clean(chunks))
            }
        };
        let mut covers: Vec<Cover> = areas.into_iter().map(Cover::Piece).collect();
        if covers.is_empty() {
            covers.push(Cover::Nothing);
        }
        let (who, whole) = ((pays.task(), pays.group()), Whole::new(covers.len(), reply));
        let job = |cover| {
            let mut target = Target::new(Arc::clone(&file.file), 0);
            target.data_only = data_only;
            let from = (from, Touch::NOTHING);
            let ticket = self.hold(from, Reply::Piece(Arc::clone(&whole)), None);
            Job { cover, ..self.job(who, Op::Flush, Area::default(), (Some(target), ticket)) }
        };
        self.device.submit(&mut covers.into_iter().map(job).collect());
    }

    fn copy(
        &self,
        from: Caller,
        (source, start): (&Arc<Opened>, u64),
        (file, offset): (&Arc<Opened>, u64),
        len: u64,
        late: &LateWrite<'_>,
    ) {
        let size = rustix::fs::fstat(source.file.fd()).map_or(0, |stat| stat.st_size);
        let len = len.min(COPY_MAX).min(size.cast_unsigned().saturating_sub(start));
        let Some(len32) = u32::try_from(len).ok().filter(|len| *len > 0) else {
            return late.take().map_or((), |reply| reply.written(0));
        };
        if file.is_aside || source.is_aside {
            return copy_aside((source, start), (file, offset), len32, late);
        }
        let pays = self.who.of(from);
        let area = self.dirty_place(file, offset, len);
        let mut target = Target::new(Arc::clone(&file.file), offset);
        target.space = self.keep(file).map(|space| space as _);
        target.source = Some((Arc::clone(&source.file), start));
        let Some(reply) = late.take() else { return };
        let from = (from, Touch::one(file.inode.id()));
        let ticket = self.hold(from, Reply::Write(reply, len32), None);
        let who = (pays.task(), pays.group());
        self.submit(self.job(who, Op::Write, area, (Some(target), ticket)));
    }

    fn passed_through(&self, _from: Caller) {
        self.passed_count.fetch_add(1, Relaxed);
    }

    fn limited(&self, from: Caller) -> Option<(TaskId, GroupId)> {
        self.pays_if_limited(from)
    }

    fn hold(&self, from: Caller, pays: (TaskId, GroupId), kind: Kind, operation: Operation) {
        self.hold_operation(from, pays, kind, operation);
    }

    fn reshaped(&self, inode: &Inode, (from, to): (u64, u64)) {
        let state = &inode.state;
        match &self.placement {
            Placement::Real(_) => {
                state.extents.lock().unwrap_or_else(PoisonError::into_inner).forget();
                if let Some(space) = state.space.get() {
                    self.device.void(space.between(from, to));
                }
            }
            Placement::Emulated(layout) if to == u64::MAX => {
                layout.cut(&state.chunks, from, |extent| self.device.void(extent.into()));
            }
            Placement::Emulated(_) => {}
        }
    }

    fn forgotten(&self, inode: &Inode) {
        self.reshaped(inode, (0, u64::MAX));
        if let (Placement::Real(spaces), Some(space)) = (&self.placement, inode.state.space.get()) {
            spaces.drop_kept(space);
        }
    }
}
