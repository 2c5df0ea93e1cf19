//! A whole device without I/O and without a clock: an engine, a page cache and a disk model.
//!
//! The simulator turns it in virtual time, the daemon's emulated disk in real time: the very same
//! code. The contract is that of the engine: tell it what happened ([`Machine::submit`],
//! [`Machine::control`], several at one instant if they came together), then drain it with
//! [`Machine::poll`] until it says when to come back.
//!
//! # What goes where
//! - An unbuffered request goes to the engine as it is.
//! - A buffered read that hits is finished at once; a miss goes to the engine and fills the cache.
//! - A buffered write passes stage pace, portion by portion, and is in the cache then. A write with
//!   FUA goes through the engine to the medium.
//! - Write-back is the engine's: it says what it starts and which pages are clean.
//! - A flush goes to the engine, which has all that is dirty written back first.
//!
//! # Properties
//! 1. Every submitted request finishes exactly once, whatever the disk does: a command that the
//!    disk
//!    loses fails after [`COMMAND_TIMEOUT`].
//! 2. A flush covers every write that was finished before it was submitted.

use crate::disk::{Command, Disk};
use crate::page_cache::{Lookup, PageCache, PageCacheConfig};
use iopace_core::engine::{
    Config, Control, ControlError, Engine, Finish, Input, Output, Resume, Start,
};
use iopace_core::request::{
    Cover, DiskError, Extent, Op, Outcome, RequestId, StageTimes, Submit, Tag, TaskId,
};
use iopace_core::time::{Instant, Nanos};
use iopace_core::trace::Event;
use iopace_core::units::Bytes;
use iopace_core::verdict::Reason;
use std::collections::VecDeque;

/// A command that the disk has not completed by then has failed (Linux: 30 s for a SCSI disk).
pub const COMMAND_TIMEOUT: Nanos = Nanos::from_secs(30);

/// A request for the device.
#[derive(Clone, Copy, Debug)]
pub struct Io {
    /// What is asked for.
    pub submit: Submit,
    /// Whether the page cache may serve it.
    pub buffered: bool,
}

/// What has to be done outside.
#[derive(Debug)]
pub enum MachineOutput {
    /// A request has ended.
    Finished(Finished),
    /// Something an operator should know.
    Event(Box<Event>),
    /// Drained: come back at the instant or with an input.
    Wait(Instant, Reason),
}

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// The caller's name for it.
    pub tag: Tag,
    /// Who called.
    pub task: TaskId,
    /// What was done.
    pub op: Op,
    /// Where.
    pub extent: Extent,
    /// How it ended.
    pub outcome: Outcome,
    /// Where its time went; time spent waiting for dirty memory counts as pace.
    pub times: StageTimes,
    /// Whether the page cache served it, without the disk.
    pub cached: bool,
}

/// What a request of the engine is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// The caller's request as it is.
    Direct(Submit),
    /// A read that missed: fills the cache.
    Fill(Submit),
    /// A write that went through to the medium: what it wrote is cached.
    Through(Submit),
    /// Pages on their way to the disk.
    WriteBack,
    /// A buffered write at the pace stage.
    Pace(Submit),
}

/// One request that the machine has in the engine or at the disk.
#[derive(Debug)]
struct Entry {
    purpose: Purpose,
    /// The engine's name, once it is at the disk.
    id: Option<RequestId>,
    started: Instant,
    /// Tells this use of the place from an earlier one.
    number: u64,
}

/// The device.
#[derive(Debug)]
pub struct Machine {
    engine: Engine,
    cache: Option<PageCache>,
    disk: Box<dyn Disk>,
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    last_number: u64,
    outputs: VecDeque<MachineOutput>,
    /// Commands at the disk in the order they were started, for the time-out.
    started: VecDeque<(Instant, u64)>,
    /// In this drain the disk had nothing, and nothing was given to it since.
    is_disk_drained: bool,
}

impl Machine {
    /// A device at rest. The window is never deeper than the disk, and write-back ends with it.
    pub fn new(config: Config, cache: Option<PageCacheConfig>, disk: Box<dyn Disk>) -> Machine {
        let window_depth = config.window_depth.min(disk.depth());
        let capacity = disk.capacity();
        let rotational = Some(disk.is_rotational());
        Machine {
            engine: Engine::new(Config { window_depth, capacity, rotational, ..config }),
            cache: cache.map(PageCache::new),
            disk,
            entries: Vec::new(),
            free: Vec::new(),
            last_number: 0,
            outputs: VecDeque::new(),
            started: VecDeque::new(),
            is_disk_drained: false,
        }
    }

    /// Takes a request.
    pub fn submit(&mut self, now: Instant, io: Io) {
        let Io { submit, buffered } = io;
        if let (Some(cache), Op::Trim | Op::WriteZeroes) = (&mut self.cache, submit.op) {
            cache.trim(submit.extent);
        }
        let Some(cache) = self.cache.as_mut().filter(|_| buffered) else {
            return self.send(now, submit, Purpose::Direct(submit));
        };
        match submit.op {
            Op::Read | Op::Cache => match cache.read(submit.extent) {
                Lookup::Hit => {
                    let hit = finished(submit, Outcome::Ok, StageTimes::default(), true);
                    self.outputs.push_back(hit);
                }
                Lookup::Miss(missing) => {
                    let extent = clamp(missing, self.disk.capacity(), submit.extent);
                    self.send(
                        now,
                        Submit { extent, op: Op::Read, ..submit },
                        Purpose::Fill(submit),
                    );
                }
            },
            Op::Write if submit.fua => self.send(now, submit, Purpose::Through(submit)),
            Op::Write => {
                let tag = self.enter(now, Purpose::Pace(submit));
                let Submit { task, group, extent, .. } = submit;
                let area = extent.into();
                self.engine.handle(now, Input::Dirtied { tag, task, group, area });
            }
            Op::Trim | Op::WriteZeroes | Op::Flush => {
                self.send(now, submit, Purpose::Direct(submit));
            }
        }
    }

    /// Takes a flush that covers so much.
    pub fn flush(&mut self, now: Instant, submit: Submit, cover: Cover) {
        let tag = self.enter(now, Purpose::Direct(submit));
        self.engine.handle(now, Input::Flush(Submit { tag, ..submit }, cover));
    }

    /// Puts the pages wholly inside `extent` into the page cache, as if they had been read.
    pub fn warm(&mut self, extent: Extent) {
        if let Some(cache) = &mut self.cache {
            cache.fill(extent);
        }
    }

    /// The content of the extent is void: it is in no cache, and what was dirty is not written
    /// back.
    pub fn void(&mut self, now: Instant, extent: Extent) {
        if let Some(cache) = &mut self.cache {
            cache.trim(extent);
        }
        self.engine.handle(now, Input::Void(extent.into()));
    }

    /// Changes the running device.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn control(&mut self, now: Instant, control: Control) -> Result<(), ControlError> {
        let control = match control {
            Control::Window(depth) => Control::Window(depth.min(self.disk.depth())),
            other => other,
        };
        self.engine.control(now, control)
    }

    /// The next thing to do; [`MachineOutput::Wait`] when there is no more.
    pub fn poll(&mut self, now: Instant) -> MachineOutput {
        loop {
            if let Some(output) = self.outputs.pop_front() {
                return output;
            }
            if self.complete(now) {
                continue;
            }
            match self.engine.poll(now) {
                Output::Start(start) => self.start(now, &start),
                Output::Finish(finish) => return self.finished(&finish),
                Output::Resume(resume) => {
                    if let Some(output) = self.resumed(now, &resume) {
                        return output;
                    }
                }
                Output::Cleaned(area) => {
                    if let Some(cache) = &mut self.cache {
                        cache.cleaned(area.extent);
                    }
                }
                Output::Event(event) => return MachineOutput::Event(event),
                Output::Wait(at, reason) => {
                    self.is_disk_drained = false;
                    return MachineOutput::Wait(at.min(self.next()), reason);
                }
            }
        }
    }

    /// The engine, to be looked at.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The page cache, to be looked at.
    pub fn cache(&self) -> Option<&PageCache> {
        self.cache.as_ref()
    }

    /// The disk, to be looked at.
    pub fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// Submits a request to the engine under a name of our own.
    fn send(&mut self, now: Instant, submit: Submit, purpose: Purpose) {
        let tag = self.enter(now, purpose);
        self.engine.handle(now, Input::Submit(Submit { tag, ..submit }));
    }

    fn enter(&mut self, now: Instant, purpose: Purpose) -> Tag {
        self.last_number += 1;
        let entry = Entry { purpose, id: None, started: now, number: self.last_number };
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place] = Some(entry);
                place
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() - 1
            }
        };
        Tag(place as u64)
    }

    fn leave(&mut self, tag: Tag) -> Entry {
        let place = usize::try_from(tag.0).expect("a place in the table");
        self.free.push(place);
        self.entries[place].take().expect("the request exists")
    }

    fn start(&mut self, now: Instant, start: &Start) {
        let &Start { id, op, extent, fua, write_back, .. } = start;
        let tag = if write_back { self.enter(now, Purpose::WriteBack) } else { start.tag };
        let place = usize::try_from(tag.0).expect("a place in the table");
        let entry = self.entries[place].as_mut().expect("the request exists");
        entry.id = Some(id);
        entry.started = now;
        self.started.push_back((now, entry.number << 24 | place as u64));
        let id = entry.number << 24 | place as u64;
        self.disk.submit(now, Command { id, op, extent, fua });
        self.is_disk_drained = false;
    }

    /// Takes one completion from the disk, or one command that it has lost.
    fn complete(&mut self, now: Instant) -> bool {
        if self.is_disk_drained {
            return false;
        }
        if let Some(done) = self.disk.poll(now) {
            self.done(now, done.id, done.outcome);
            return true;
        }
        while let Some(&(started, key)) = self.started.front() {
            if self.entry_at_disk(key).is_none() {
                self.started.pop_front();
                continue;
            }
            if now.since(started) < COMMAND_TIMEOUT {
                break;
            }
            self.started.pop_front();
            self.done(now, key, Outcome::Failed(DiskError::Io));
            return true;
        }
        self.is_disk_drained = true;
        false
    }

    /// The engine's name of the command with that key, if it is still at the disk.
    fn entry_at_disk(&self, key: u64) -> Option<RequestId> {
        let place = usize::try_from(key & 0xff_ffff).expect("24 bits");
        let entry = self.entries.get(place)?.as_ref()?;
        entry.id.filter(|_| entry.number == key >> 24)
    }

    fn done(&mut self, now: Instant, key: u64, outcome: Outcome) {
        // A completion after the time-out names a command that is no longer there.
        let Some(id) = self.entry_at_disk(key) else { return };
        let tag = Tag(key & 0xff_ffff);
        let place = usize::try_from(tag.0).expect("24 bits");
        let entry = self.entries[place].as_mut().expect("it is at the disk");
        // It may have failed and be completed at one instant: the first counts.
        entry.id = None;
        if entry.purpose == Purpose::WriteBack {
            self.leave(tag);
        }
        self.engine.handle(now, Input::Done { id, outcome });
    }

    /// The engine is done with a request: what was it for?
    fn finished(&mut self, finish: &Finish) -> MachineOutput {
        let Entry { purpose, .. } = self.leave(finish.tag);
        let submit = match purpose {
            Purpose::Fill(submit) | Purpose::Through(submit) => {
                if let Some(cache) = self.cache.as_mut().filter(|_| finish.outcome == Outcome::Ok) {
                    cache.fill(finish.extent);
                }
                submit
            }
            // At stage pace: a buffered write that was refused at the door.
            Purpose::Direct(submit) | Purpose::Pace(submit) => submit,
            Purpose::WriteBack => unreachable!("nobody is told of write-back"),
        };
        finished(submit, finish.outcome, finish.times, false)
    }

    /// A portion of a buffered write may go into memory: there it is. Its end, if it was the last.
    fn resumed(&mut self, now: Instant, resume: &Resume) -> Option<MachineOutput> {
        let &Resume { id, tag, extent, last, waited, .. } = resume;
        let cache = self.cache.as_mut().expect("only the cache takes buffered writes");
        cache.write(extent);
        let output = last.then(|| {
            let Entry { purpose: Purpose::Pace(submit), .. } = self.leave(tag) else {
                unreachable!("only buffered writes are paced")
            };
            finished(submit, Outcome::Ok, waited, true)
        });
        self.engine.handle(now, Input::Wrote { id, ok: true });
        output
    }

    /// When something happens by itself.
    fn next(&self) -> Instant {
        let lost = self.started.front().map_or(Instant::NEVER, |&(at, _)| at + COMMAND_TIMEOUT);
        self.disk.next().min(lost)
    }
}

fn finished(submit: Submit, outcome: Outcome, times: StageTimes, cached: bool) -> MachineOutput {
    let Submit { tag, task, op, extent, .. } = submit;
    MachineOutput::Finished(Finished { tag, task, op, extent, outcome, times, cached })
}

/// Keeps whole pages within the disk, whose size need not be a multiple of a page.
fn clamp(pages: Extent, capacity: Bytes, asked: Extent) -> Extent {
    let end = pages.end().min(capacity).max(asked.end().min(capacity));
    let offset = pages.offset().min(end);
    Extent::new(offset, end - offset).expect("within the disk")
}

#[cfg(test)]
mod tests;
