//! A scheduler by itself, without an engine and without the guard around it.

use iopace_core::group::Settings;
use iopace_core::group::table::Groups;
use iopace_core::request::{Extent, GroupId, Op, RequestId, Submit, Tag, TaskId};
use iopace_core::sched::{Algorithm, Params, Pop, Scheduler};
use iopace_core::table::{Request, Table};
use iopace_core::time::{Instant, Nanos};
use iopace_core::trace::Fault;
use iopace_core::units::Bytes;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Bytes of each request.
pub(crate) const PIECE: u64 = 65_536;

/// After this long with requests queued and nothing at the disk, a scheduler has stopped.
const STOPPED_AFTER: Nanos = Nanos::from_secs(3_600);

/// Characters of a failed scheduler's state that are shown.
pub(crate) const STATE_CHARS_MAX: usize = 200;

/// How often it may answer "later" for one request: the shortest times add up to nothing.
const ASKED_MAX: u32 = 100_000;

/// A scheduler with a table of requests, on a disk that takes one at a time.
pub(crate) struct Bare {
    scheduler: Box<dyn Scheduler>,
    pub(crate) table: Table,
    pub(crate) now: Instant,
    groups: Groups,
}

impl Bare {
    fn new(algorithm: &Algorithm, params: &Params) -> Bare {
        let (table, now, groups) = (Table::default(), Instant::ZERO, Groups::default());
        Bare { scheduler: (algorithm.build)(params), table, now, groups }
    }

    pub(crate) fn set_rotational(&mut self, is_rotational: bool) {
        self.scheduler.set_rotational(is_rotational);
    }

    pub(crate) fn set_group(&mut self, group: GroupId, settings: &Settings) {
        self.groups.set(group, GroupId::ROOT, settings);
        self.scheduler.set_group(self.now, group, &self.groups);
    }

    pub(crate) fn configure(&mut self, params: &Params) {
        self.scheduler.configure(params, &self.table);
    }

    /// A request comes.
    pub(crate) fn push(&mut self, task: TaskId, group: GroupId, op: Op, offset: u64) -> RequestId {
        self.submit(waited_for(task, group, op, (offset, PIECE)))
    }

    /// The same of any kind.
    pub(crate) fn submit(&mut self, submit: Submit) -> RequestId {
        let id = self.table.queue(self.now, submit);
        self.scheduler.push(self.now, id, &self.table);
        id
    }

    /// The next request, which leaves the table; time goes on to when the scheduler gives it.
    pub(crate) fn pop(&mut self) -> Result<(RequestId, Request), String> {
        let since = self.now;
        for _ in 0..ASKED_MAX {
            match self.scheduler.pop(self.now, &self.table) {
                Pop::Ready(id) | Pop::Last(id, _) => {
                    let Some(request) = self.table.get(id).copied() else {
                        return Err(format!("it returned {id:?}, which is not queued"));
                    };
                    self.table.end(id);
                    return Ok((id, request));
                }
                Pop::At(at, _) if !at.is_never() && at.since(since) < STOPPED_AFTER => {
                    self.now = at.max(self.now + Nanos(1));
                }
                Pop::At(at, reason) => {
                    let until = match at.is_never() {
                        true => "for ever".into(),
                        false => format!("for {}", at.since(since)),
                    };
                    return Err(format!("it waits {until} with nothing at the disk: {reason:?}"));
                }
                Pop::Empty => {
                    let queued = self.table.queued_count();
                    return Err(format!("it says that nothing is queued, of {queued} requests"));
                }
            }
        }
        Err(format!("it answered 'later' {ASKED_MAX} times in a row"))
    }

    /// Pops all that is queued: what a scheduler has lost does not come.
    pub(crate) fn empty(&mut self) -> Result<(), String> {
        while self.table.queued_count() > 0 {
            let (id, request) = self.pop()?;
            self.done(id, &request, Nanos::ZERO);
        }
        Ok(())
    }

    /// The disk has taken so long for that request.
    pub(crate) fn done(&mut self, id: RequestId, request: &Request, service: Nanos) {
        self.now = self.now + service;
        self.scheduler.on_done(self.now, id, request, true);
    }
}

/// A request that its task waits for, at an offset and of so many bytes.
pub(crate) fn waited_for(
    task: TaskId,
    group: GroupId,
    op: Op,
    (offset, len): (u64, u64),
) -> Submit {
    let extent = Extent::new(Bytes(offset), Bytes(len)).expect("offsets are far from the end");
    Submit { tag: Tag(0), task, group, op, extent, fua: false, sync: true }
}

/// Carries out calls of a scheduler; a panic of it, or a fault that it throws, is an error. An
/// error comes with the state in which the scheduler is then.
pub(crate) fn fenced<T>(
    algorithm: &Algorithm,
    params: &Params,
    calls: impl FnOnce(&mut Bare) -> Result<T, String>,
) -> Result<T, String> {
    let mut bare = caught(|| Ok(Bare::new(algorithm, params)))?;
    let result = caught(|| calls(&mut bare)).map_err(|what| {
        let state = caught(|| Ok(format!("{:?}", bare.scheduler))).unwrap_or_default();
        let state: String = state.chars().take(STATE_CHARS_MAX).collect();
        format!("{what}; its state: {state}")
    });
    // It may have failed, so its end is fenced, too.
    let ended = caught(|| {
        drop(bare);
        Ok(())
    });
    ended.and(result)
}

fn caught<T>(calls: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(calls)).unwrap_or_else(|thrown| Err(described(&*thrown)))
}

fn described(thrown: &(dyn Any + Send)) -> String {
    if let Some(fault) = thrown.downcast_ref::<Fault>() {
        return format!("it {}", fault.describe());
    }
    let text = thrown.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| thrown.downcast_ref::<&str>().copied());
    format!("it panicked: {}", text.unwrap_or("without a word"))
}
