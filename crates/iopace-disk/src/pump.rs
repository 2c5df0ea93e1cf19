//! The loop between an engine and a disk, for every kind of disk: a [`Backend`].
//!
//! A [`Pump`] owns the engine, the requests in it by tag, and the backend. The contract is that of
//! the engine: tell it what happened ([`Pump::submit`], [`Pump::handle`], [`Pump::control`],
//! several at one instant if they came together), then [`Pump::drain`] it, which says when to come
//! back. Time is an argument: the simulator turns a pump in virtual time, the daemon in
//! real time. A pump does no I/O: what a backend cannot do at once it puts into its
//! [`Backend::Outside`], and the caller carries that out, without the lock if there is one.

use iopace_core::engine::{
    Config, Control, ControlError, Engine, Input, Output, Resume, Start, WriteId,
};
use iopace_core::group::table::Groups;
use iopace_core::request::{
    Area, DiskError, Extent, GroupId, Outcome, RequestId, StageTimes, Tag, TaskId,
};
use iopace_core::time::Instant;
use iopace_core::trace::Event;
use slab::Slab;

/// The disk behind a pump: a model, or a real one.
pub trait Backend {
    /// A request of the frontend. The pump keeps it until it has ended.
    type Request;

    /// Work that is left to the caller, in the order in which it arose.
    type Outside;

    /// A request comes under this tag: the input for the engine, or `None` if the request has ended
    /// well without it. `groups` are those that the engine knows.
    fn arrive(&mut self, tag: Tag, request: &Self::Request, groups: &Groups) -> Option<Input>;

    /// The engine starts a request, or write-back if there is none. False if the request must not
    /// be carried out any more: it fails then.
    fn start(
        &mut self,
        now: Instant,
        start: Start,
        request: Option<&mut Self::Request>,
        outside: &mut Self::Outside,
    ) -> bool;

    /// A portion of a buffered write may go into memory. True if it is there already; else the
    /// caller owes [`Input::Wrote`], and takes the request out with the last portion.
    fn resume(
        &mut self,
        resume: &Resume,
        request: &mut Self::Request,
        outside: &mut Self::Outside,
    ) -> bool;

    /// A request has ended.
    fn end(&mut self, request: Self::Request, end: End, outside: &mut Self::Outside);

    /// These pages are clean ([`Output::Cleaned`]).
    fn cleaned(&mut self, _area: Area) {}

    /// The content of the area is void.
    fn void(&mut self, _area: Area) {}

    /// Whether the page cache has served a request that the engine has ended.
    fn was_cached(&mut self, _tag: Tag) -> bool {
        false
    }

    /// Most requests that the disk holds.
    fn depth(&self) -> u32 {
        u32::MAX
    }

    /// The next request that the disk has completed by itself, and how.
    fn completed(&mut self, _now: Instant) -> Option<(RequestId, Outcome)> {
        None
    }

    /// The pump is drained: when the next request is completed, [`Instant::NEVER`] if the caller
    /// will say so.
    fn rest(&mut self) -> Instant {
        Instant::NEVER
    }
}

/// The end of a request.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// How it ended.
    pub outcome: Outcome,
    /// Where its time went; time spent waiting for dirty memory counts as pace.
    pub times: StageTimes,
    /// What of the disk it was for, as the engine was told; nothing if it was `cached`.
    pub extent: Extent,
    /// Whether the page cache served it, without the disk.
    pub cached: bool,
}

impl End {
    /// The page cache has served it.
    fn cached(times: StageTimes) -> End {
        End { outcome: Outcome::Ok, times, extent: Extent::EMPTY, cached: true }
    }
}

/// One turn of a pump.
#[derive(Debug)]
pub enum Turned {
    /// Something was done: turn on.
    On,
    /// Something an operator should know: turn on.
    Event(Box<Event>),
    /// Drained: come back at the instant or with an input.
    Wait(Instant),
}

/// An engine and the disk behind it.
#[derive(Debug)]
pub struct Pump<B: Backend> {
    engine: Engine,
    backend: B,
    /// Requests in the engine, by tag.
    requests: Slab<B::Request>,
}

impl<B: Backend> Pump<B> {
    /// An idle device.
    pub fn new(config: Config, backend: B) -> Pump<B> {
        Pump { engine: Engine::new(config), backend, requests: Slab::new() }
    }

    /// Takes a request.
    pub fn submit(&mut self, now: Instant, request: B::Request, outside: &mut B::Outside) {
        let place = self.requests.vacant_entry();
        let tag = Tag(place.key() as u64);
        match self.backend.arrive(tag, place.insert(request), self.engine.groups()) {
            Some(input) => self.engine.handle(now, input),
            None => self.end(tag, End::cached(StageTimes::default()), outside),
        }
    }

    /// Takes a buffered write whose caller has the data at hand. If all of it may go into memory at
    /// once, the caller writes it there and owes [`Input::Wrote`] for this name; else the write
    /// waits as the request that `make` makes, and the pump has turned once. The pump was drained.
    ///
    /// # Errors
    /// The write waits.
    pub fn write_at_once(
        &mut self,
        now: Instant,
        (task, group, area): (TaskId, GroupId, Area),
        make: impl FnOnce() -> B::Request,
        outside: &mut B::Outside,
    ) -> Result<WriteId, Turned> {
        let place = self.requests.vacant_entry();
        let tag = Tag(place.key() as u64);
        self.engine.handle(now, Input::Dirtied { tag, task, group, area });
        // It was drained before, so what passes at once is the first that the engine says.
        match self.engine.poll(now) {
            Output::Resume(resume) if resume.tag == tag && resume.last => Ok(resume.id),
            first => {
                place.insert(make());
                Err(self.carry_out(now, first, outside))
            }
        }
    }

    /// Tells the engine what happened: completions, and portions that are in memory.
    pub fn handle(&mut self, now: Instant, input: Input) {
        self.engine.handle(now, input);
    }

    /// The content of the area is void: it is in no cache, and what was dirty is not written back.
    pub fn void(&mut self, now: Instant, area: Area) {
        self.backend.void(area);
        self.engine.handle(now, Input::Void(area));
    }

    /// Changes the running device; its window is never deeper than the disk.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn control(&mut self, now: Instant, control: Control) -> Result<(), ControlError> {
        let control = match control {
            Control::Window(depth) => Control::Window(depth.min(self.backend.depth())),
            other => other,
        };
        self.engine.control(now, control)
    }

    /// Does all that there is to do, and says when to come back if no input comes before. `note` is
    /// told what an operator should know.
    pub fn drain(
        &mut self,
        now: Instant,
        outside: &mut B::Outside,
        mut note: impl FnMut(Box<Event>),
    ) -> Instant {
        loop {
            match self.turn(now, outside) {
                Turned::On => {}
                Turned::Event(event) => note(event),
                Turned::Wait(at) => return at,
            }
        }
    }

    /// Does the next thing.
    #[inline]
    pub fn turn(&mut self, now: Instant, outside: &mut B::Outside) -> Turned {
        if let Some((id, outcome)) = self.backend.completed(now) {
            self.engine.handle(now, Input::Done { id, outcome });
            return Turned::On;
        }
        let output = self.engine.poll(now);
        self.carry_out(now, output, outside)
    }

    #[inline]
    fn carry_out(&mut self, now: Instant, output: Output, outside: &mut B::Outside) -> Turned {
        match output {
            Output::Start(start) => {
                let request = match start.write_back {
                    true => None,
                    false => Some(&mut self.requests[key(start.tag)]),
                };
                if !self.backend.start(now, start, request, outside) {
                    let outcome = Outcome::Failed(DiskError::Io);
                    self.engine.handle(now, Input::Done { id: start.id, outcome });
                }
            }
            Output::Finish(finish) => {
                let (outcome, times, extent) = (finish.outcome, finish.times, finish.extent);
                let end = match self.backend.was_cached(finish.tag) {
                    true => End::cached(times),
                    false => End { outcome, times, extent, cached: false },
                };
                self.end(finish.tag, end, outside);
            }
            Output::Resume(resume) => {
                let Resume { id, tag, last, waited, .. } = resume;
                if self.backend.resume(&resume, &mut self.requests[key(tag)], outside) {
                    if last {
                        self.end(tag, End::cached(waited), outside);
                    }
                    self.engine.handle(now, Input::Wrote { id, ok: true });
                }
            }
            Output::Cleaned(area) => self.backend.cleaned(area),
            Output::Event(event) => return Turned::Event(event),
            Output::Wait(at, _) => return Turned::Wait(at.min(self.backend.rest())),
        }
        Turned::On
    }

    fn end(&mut self, tag: Tag, end: End, outside: &mut B::Outside) {
        let request = self.requests.remove(key(tag));
        self.backend.end(request, end, outside);
    }

    /// The engine, to be looked at.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The backend behind it.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// The backend behind it.
    pub fn backend_mut(&mut self) -> &mut B {
        &mut self.backend
    }

    /// Requests that have not ended, by tag.
    pub fn requests_mut(&mut self) -> &mut Slab<B::Request> {
        &mut self.requests
    }
}

/// The place of a tag in the table.
fn key(tag: Tag) -> usize {
    usize::try_from(tag.0).expect("a place in the table")
}
