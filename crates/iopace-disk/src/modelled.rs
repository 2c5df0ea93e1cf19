//! A disk model with a modelled page cache before it, as the [`Backend`] of a pump.
//!
//! The simulator turns it in virtual time, the daemon's emulated disk in real time: the very same
//! code.
//!
//! # What goes where
//! - An unbuffered request goes to the engine as it is.
//! - A buffered read that hits is finished at once, unless a limit (of any kind, as with a file)
//!   holds for its group: then it goes to the engine, which lets it through as the limit says, and
//!   the cache has it instead of the disk. A miss goes to the engine and fills the cache.
//! - A buffered write passes stage pace, portion by portion, and is in the cache then. A write with
//!   FUA goes through the engine to the medium.
//! - Write-back is the engine's: it says what it starts and which pages are clean.
//! - A flush goes to the engine, which has all that is dirty written back first.
//!
//! # Properties
//! 1. Every submitted request finishes exactly once, whatever the disk does: a command that the
//!    disk loses fails after [`COMMAND_TIMEOUT`]. All parts of a command of several requests end as
//!    it does.
//! 2. A flush covers every write that was finished before it was submitted.

use crate::disk::{Command, Disk};
use crate::page_cache::{Lookup, PageCache, PageCacheConfig};
use crate::pump::{Backend, End, Pump};
use iopace_core::engine::{Config, Input, Resume, Start};
use iopace_core::group::table::Groups;
use iopace_core::request::{Area, Cover, DiskError, Extent, Op, Outcome, RequestId, Submit, Tag};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;

mod joined;

use joined::Joined;

/// A command that the disk has not completed by then has failed (Linux: 30 s for a SCSI disk).
pub const COMMAND_TIMEOUT: Nanos = Nanos::from_secs(30);

/// A request for a modelled device.
#[derive(Clone, Copy, Debug)]
pub struct Io {
    /// The request, with the frontend's own tag.
    pub submit: Submit,
    /// Whether the page cache may serve it.
    pub buffered: bool,
}

/// A request of a frontend, as a modelled device sees it.
pub trait Asked {
    /// The request; its tag is not looked at.
    fn io(&self) -> Io;

    /// What it covers if it is a flush.
    fn cover(&self) -> Cover {
        Cover::All
    }
}

impl Asked for Io {
    fn io(&self) -> Io {
        *self
    }
}

/// A modelled device for the simulator and for tests.
pub type Machine = Pump<Modelled<Io>>;

/// A disk model and its page cache. What is left to the caller are requests that have ended.
#[derive(Debug)]
pub struct Modelled<R> {
    cache: Option<PageCache>,
    disk: Box<dyn Disk>,
    /// Commands in the order in which they went to the disk, with the engine's names of those that
    /// are not completed. The first has the number `first_command`.
    commands: VecDeque<(Instant, Option<RequestId>)>,
    first_command: u64,
    joined: Joined,
    /// Reads that hit, and are with the engine because of a limit, by their tags: whether the cache
    /// has served them.
    hits: BTreeMap<u64, bool>,
    /// Those of them that the engine has started.
    served: VecDeque<RequestId>,
    /// In this drain the disk had nothing, and nothing was given to it since.
    is_drained: bool,
    requests: PhantomData<fn(R)>,
}

impl<R: Asked> Modelled<R> {
    /// A device at rest. The window is never deeper than the disk, and write-back ends with it.
    pub fn pump(
        config: Config,
        cache: Option<PageCacheConfig>,
        disk: Box<dyn Disk>,
    ) -> Pump<Modelled<R>> {
        let window_depth = config.window_depth.min(disk.depth());
        let capacity = disk.capacity();
        let rotational = Some(disk.is_rotational());
        let modelled = Modelled {
            cache: cache.map(PageCache::new),
            disk,
            commands: VecDeque::new(),
            first_command: 0,
            joined: Joined::default(),
            hits: BTreeMap::new(),
            served: VecDeque::new(),
            is_drained: false,
            requests: PhantomData,
        };
        Pump::new(Config { window_depth, capacity, rotational, ..config }, modelled)
    }

    /// The page cache, to be looked at.
    pub fn cache(&self) -> Option<&PageCache> {
        self.cache.as_ref()
    }

    /// The disk, to be looked at.
    pub fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// Puts the pages wholly inside `extent` into the page cache, as if they had been read.
    pub fn warm(&mut self, extent: Extent) {
        if let Some(cache) = &mut self.cache {
            cache.fill(extent);
        }
    }

    /// A command has been completed, or is lost: the engine's name for it, if it is still at the
    /// disk. A completion after the time-out names a command that is not.
    fn take(&mut self, command: u64) -> Option<RequestId> {
        let place = usize::try_from(command.checked_sub(self.first_command)?).ok()?;
        let id = self.commands.get_mut(place)?.1.take();
        while self.commands.front().is_some_and(|(_, id)| id.is_none()) {
            self.commands.pop_front();
            self.first_command += 1;
        }
        id
    }

    /// Whether the cache serves a read that hit when it came, and waited for a limit since.
    fn hits_still(&mut self, start: &Start) -> bool {
        let (Some(served), Some(cache)) = (self.hits.get_mut(&start.tag.0), &mut self.cache) else {
            return false;
        };
        *served = cache.read(start.extent) == Lookup::Hit;
        *served
    }

    /// A completion of the disk, or a command that it has lost.
    #[inline(never)]
    fn ended_at_disk(&mut self, now: Instant) -> Option<(RequestId, Outcome)> {
        if let Some(ended) = self.joined.next_ended() {
            return Some(ended);
        }
        while let Some(done) = self.disk.poll(now) {
            if let Some(id) = self.take(done.id) {
                self.joined.end(done.id, done.outcome);
                return Some((id, done.outcome));
            }
        }
        if self.commands.front().is_some_and(|(at, _)| now.since(*at) >= COMMAND_TIMEOUT) {
            let (command, outcome) = (self.first_command, Outcome::Failed(DiskError::Io));
            let id = self.take(command)?;
            self.joined.end(command, outcome);
            return Some((id, outcome));
        }
        self.is_drained = true;
        None
    }
}

impl<R: Asked> Backend for Modelled<R> {
    type Request = R;
    type Outside = Vec<(R, End)>;

    fn arrive(&mut self, tag: Tag, request: &R, groups: &Groups) -> Option<Input> {
        let Io { submit, buffered } = request.io();
        let submit = Submit { tag, ..submit };
        let Submit { task, group, op, extent, fua, .. } = submit;
        if let (Some(cache), Op::Trim | Op::WriteZeroes) = (&mut self.cache, op) {
            cache.trim(extent);
        }
        match (op, self.cache.as_mut().filter(|_| buffered)) {
            (Op::Flush, _) => Some(Input::Flush(submit, request.cover())),
            (Op::Read | Op::Cache, Some(cache)) => match cache.read(extent) {
                Lookup::Hit if groups.is_limited(group) => {
                    self.hits.insert(tag.0, false);
                    Some(Input::Submit(Submit { op: Op::Read, ..submit }))
                }
                Lookup::Hit => None,
                Lookup::Miss(missing) => {
                    let extent = clamp(missing, self.disk.capacity(), extent);
                    Some(Input::Submit(Submit { extent, op: Op::Read, ..submit }))
                }
            },
            (Op::Write, Some(_)) if !fua => {
                Some(Input::Dirtied { tag, task, group, area: extent.into() })
            }
            _ => Some(Input::Submit(submit)),
        }
    }

    fn start(
        &mut self,
        now: Instant,
        start: Start,
        _request: Option<&mut R>,
        _ended: &mut Vec<(R, End)>,
    ) -> bool {
        let Start { op, mut extent, fua, .. } = start;
        let is_single = !start.more && !self.joined.is_under_way();
        if !start.write_back && is_single && self.hits_still(&start) {
            self.served.push_back(start.id);
            return true;
        }
        let id = self.first_command + self.commands.len() as u64;
        if !is_single {
            match self.joined.part(id, &start) {
                Some(whole) => extent = whole,
                None => return true,
            }
        }
        self.commands.push_back((now, Some(start.id)));
        self.disk.submit(now, Command { id, op, extent, fua });
        self.is_drained = false;
        true
    }

    /// A portion of a buffered write may go into memory: there it is.
    fn resume(&mut self, resume: &Resume, _request: &mut R, _ended: &mut Vec<(R, End)>) -> bool {
        self.cache.as_mut().expect("only the cache takes buffered writes").write(resume.extent);
        true
    }

    fn end(&mut self, request: R, end: End, ended: &mut Vec<(R, End)>) {
        let Io { submit, buffered } = request.io();
        // The bytes that the disk has read or written for it are cached.
        let fills = buffered && matches!(submit.op, Op::Read | Op::Cache | Op::Write);
        if let (true, false, Outcome::Ok) = (fills, end.cached, end.outcome) {
            self.warm(end.extent);
        }
        ended.push((request, end));
    }

    fn was_cached(&mut self, tag: Tag) -> bool {
        self.hits.remove(&tag.0).unwrap_or(false)
    }

    fn cleaned(&mut self, area: Area) {
        if let Some(cache) = &mut self.cache {
            cache.cleaned(area.extent);
        }
    }

    fn void(&mut self, area: Area) {
        if let Some(cache) = &mut self.cache {
            cache.trim(area.extent);
        }
    }

    fn depth(&self) -> u32 {
        self.disk.depth()
    }

    #[inline]
    fn completed(&mut self, now: Instant) -> Option<(RequestId, Outcome)> {
        if let Some(id) = self.served.pop_front() {
            return Some((id, Outcome::Ok));
        }
        if self.is_drained { None } else { self.ended_at_disk(now) }
    }

    fn rest(&mut self) -> Instant {
        self.is_drained = false;
        let lost = self.commands.front().map_or(Instant::NEVER, |(at, _)| *at + COMMAND_TIMEOUT);
        self.disk.next().min(lost)
    }
}

/// Keeps whole pages within the disk, whose size need not be a multiple of a page.
fn clamp(pages: Extent, capacity: Bytes, asked: Extent) -> Extent {
    let end = pages.end().min(capacity).max(asked.end().min(capacity));
    let offset = pages.offset().min(end);
    Extent::new(offset, end - offset).expect("within the disk")
}

#[cfg(test)]
mod tests;
