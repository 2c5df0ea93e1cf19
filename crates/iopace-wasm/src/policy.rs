//! A module as a scheduler.

use crate::desk;
use crate::instance::{Failure, Fresh, Instance, time};
use crate::limits::ANSWERS_MAX;
use crate::module::{Module, SEED};
use core::cell::{Cell, RefCell};
use core::fmt;
use iopace_core::group::table::Groups;
use iopace_core::limits::STATE_DUMP_BYTES_MAX;
use iopace_core::request::{GroupId, RequestId};
use iopace_core::sched::{DiskView, Params, Pop, Scheduler};
use iopace_core::table::{Request, Table};
use iopace_core::time::Instant;
use iopace_core::verdict::Reason;
use std::panic::resume_unwind;
use std::sync::Arc;

/// Requests that were answered and are handed out one by one.
struct Ahead {
    ids: [RequestId; ANSWERS_MAX],
    next: usize,
    end: usize,
}

/// A running policy.
pub(crate) struct Policy {
    module: Arc<Module>,
    /// Its parameters.
    values: Vec<u64>,
    /// Questions about its state are asked of a shared one.
    instance: RefCell<Instance>,
    /// The call that has failed, after which none is made any more.
    failure: RefCell<Option<Failure>>,
    /// Whether a call has failed.
    has_failed: Cell<bool>,
    ahead: Ahead,
    /// Requests that it was given and has not handed out.
    queued_count: usize,
    /// When it was last told something.
    now: Instant,
}

impl Policy {
    /// Starts one with these parameters.
    ///
    /// # Errors
    /// The call that has failed.
    pub(crate) fn new(module: &Arc<Module>, values: Vec<u64>) -> Result<Policy, Failure> {
        let instance = made(module, None, &values)?;
        let ids = [RequestId::at(0, 0); ANSWERS_MAX];
        Ok(Policy {
            module: Arc::clone(module),
            values,
            instance: RefCell::new(instance),
            failure: RefCell::new(None),
            has_failed: Cell::new(false),
            ahead: Ahead { ids, next: 0, end: 0 },
            queued_count: 0,
            now: Instant::ZERO,
        })
    }

    /// Puts an event into the desk.
    #[inline]
    fn tell<const N: usize>(&mut self, now: Instant, event: &[u8; N]) {
        self.check();
        self.now = now;
        let told = self.instance.get_mut().tell(event);
        self.hold(told);
    }

    /// Throws again if a call has failed: its state means nothing any more.
    #[inline]
    fn check(&self) {
        if self.has_failed.get() {
            self.fail_again();
        }
    }

    #[cold]
    fn fail_again(&self) -> ! {
        let fault = self.failure.borrow().as_ref().map(|failure| failure.fault);
        resume_unwind(Box::new(fault.unwrap_or(iopace_core::trace::Fault::Trapped)))
    }

    /// The answer of a call, or its failure is thrown to the fence around schedulers.
    #[inline]
    fn hold<T>(&self, answer: Result<T, Failure>) -> T {
        answer.unwrap_or_else(|failure| self.fail(failure))
    }

    #[cold]
    #[inline(never)]
    fn fail(&self, failure: Failure) -> ! {
        *self.failure.borrow_mut() = Some(failure);
        self.has_failed.set(true);
        self.fail_again()
    }

    /// The next one of those that were answered.
    #[inline]
    fn take_ahead(&mut self) -> Option<RequestId> {
        let Ahead { ids, next, end } = &mut self.ahead;
        let id = *ids[..*end].get(*next)?;
        *next += 1;
        self.queued_count -= 1;
        Some(id)
    }

    /// Asks the module for the next requests.
    #[inline]
    fn ask(&mut self, now: Instant) -> Result<Pop, Failure> {
        let instance = self.instance.get_mut();
        let room = match self.module.description.run_ahead {
            true => instance.room().min(self.queued_count),
            false => 1,
        };
        let word = instance.pop(time(now), room)?;
        let (kind, reason, count) = (word as u8, (word >> 8) as u8, (word >> 16) as usize);
        if kind == 1 && count == 1 {
            self.queued_count -= 1;
            return Ok(Pop::Ready(instance.answer(0)));
        }
        match kind {
            0 => Ok(Pop::Empty),
            1 if (1..=room).contains(&count) => {
                for (index, id) in self.ahead.ids[..count].iter_mut().enumerate() {
                    *id = instance.answer(index);
                }
                (self.ahead.next, self.ahead.end) = (0, count);
                Ok(self.take_ahead().map_or(Pop::Empty, Pop::Ready))
            }
            1 => Err(wrong(format_args!("{count} requests where there is room for {room}"))),
            2 => {
                let reason = reason_of(reason)?;
                self.queued_count -= 1;
                Ok(Pop::Last(instance.answer(0), reason))
            }
            3 => {
                let reason = reason_of(reason)?;
                match u64::try_from(instance.instant()) {
                    Ok(0x7fff_ffff_ffff_ffff) => Ok(Pop::At(Instant::NEVER, reason)),
                    Ok(at) => Ok(Pop::At(Instant(at), reason)),
                    Err(_) => Err(wrong("an instant before the beginning of time")),
                }
            }
            _ => Err(wrong(format_args!("the unknown kind {kind}"))),
        }
    }
}

/// An instance on such a disk.
fn made(module: &Module, head: Option<bool>, values: &[u64]) -> Result<Instance, Failure> {
    Fresh::new(&module.ready, &module.description.name)?.make(SEED, head, values)
}

/// An answer of `iopace_pop` that means nothing.
#[cold]
fn wrong(what: impl fmt::Display) -> Failure {
    Failure::answer("iopace_pop", what)
}

/// The reason of that number.
fn reason_of(number: u8) -> Result<Reason, Failure> {
    match number {
        0 => Ok(Reason::Turn),
        1 => Ok(Reason::Anticipation),
        _ => Err(wrong(format_args!("the unknown reason {number}"))),
    }
}

impl Scheduler for Policy {
    fn push(&mut self, now: Instant, id: RequestId, table: &Table) {
        self.tell(now, &desk::request(desk::PUSH, now, id, &table[id]));
        self.queued_count += 1;
    }

    fn pop(&mut self, now: Instant, _table: &Table) -> Pop {
        self.check();
        if let Some(id) = self.take_ahead() {
            return Pop::Ready(id);
        }
        if self.queued_count == 0 {
            return Pop::Empty;
        }
        let answer = self.ask(now);
        self.hold(answer)
    }

    fn join(&mut self, now: Instant, id: RequestId, lead: RequestId, _table: &Table) -> bool {
        self.check();
        let Ahead { ids, next, end } = &mut self.ahead;
        if let Some(place) = ids[*next..*end].iter().position(|answered| *answered == id) {
            // It was given up already, and is handed out now.
            ids.copy_within(*next..*next + place, *next + 1);
            *next += 1;
            self.queued_count -= 1;
            return true;
        }
        if !self.instance.get_mut().joins() {
            return false;
        }
        let joins = self.instance.get_mut().join(time(now), id, lead);
        let joins = self.hold(joins);
        self.queued_count -= usize::from(joins);
        joins
    }

    fn set_rotational(&mut self, is_rotational: bool) {
        let made = made(&self.module, Some(is_rotational), &self.values);
        let instance = self.hold(made);
        *self.instance.get_mut() = instance;
    }

    fn disk(&self) -> Option<DiskView> {
        self.check();
        let disk = self.instance.borrow_mut().disk();
        let (word, seek) = self.hold(disk)?;
        let is = |bit: u32| word & bit != 0;
        match word {
            0 => None,
            word if word & 1 == 1 && word < 16 => {
                Some(DiskView { has_head: is(2).then_some(is(4)), is_learned: is(8), seek })
            }
            word => self.fail(Failure::answer("iopace_disk", word)),
        }
    }

    fn on_flush(&mut self, now: Instant, id: RequestId, table: &Table) {
        if self.learns() {
            self.tell(now, &desk::request(desk::FLUSH, now, id, &table[id]));
        }
    }

    fn learns(&self) -> bool {
        self.module.description.learns
    }

    fn on_done(&mut self, now: Instant, id: RequestId, request: &Request, ok: bool) {
        self.tell(now, &desk::head(desk::DONE, now, id, request, ok));
    }

    fn on_flushed(&mut self, now: Instant, id: RequestId, flush: &Request) {
        self.tell(now, &desk::head(desk::FLUSHED, now, id, flush, false));
    }

    fn configure(&mut self, params: &Params, _table: &Table) {
        self.check();
        self.values = values(params);
        let told = self.instance.get_mut().configure(&self.values);
        self.hold(told);
    }

    fn counters(&self, into: &mut Vec<u64>) {
        self.check();
        let count = self.module.description.counters.len();
        let counters = self.instance.borrow_mut().counters(count);
        into.extend(self.hold(counters));
    }

    fn set_group(&mut self, now: Instant, id: GroupId, groups: &Groups) {
        self.tell(now, &desk::group(now, id, groups));
    }

    fn remove_group(&mut self, id: GroupId) {
        let now = self.now;
        self.tell(now, &desk::raw_head([desk::GROUP_GONE, 0, 0, 0], id.0, now, 0));
    }
}

/// The values of parameters in the order of their specs.
pub(crate) fn values(params: &Params) -> Vec<u64> {
    params.iter().map(|(_, value)| value).collect()
}

impl fmt::Debug for Policy {
    /// Its own dump, and the call that has failed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let description = &self.module.description;
        write!(f, "{} {}, {} queued", description.name, description.version, self.queued_count)?;
        if let Some(Failure { call, why, .. }) = &*self.failure.borrow() {
            write!(f, "; {call} failed: {why}")?;
        }
        let dump = self.instance.try_borrow_mut().map(|mut it| it.dump(STATE_DUMP_BYTES_MAX));
        match dump {
            Ok(Ok(Some(text))) => write!(f, "; {text}"),
            Ok(Err(Failure { call, why, .. })) => write!(f, "; {call} failed: {why}"),
            _ => Ok(()),
        }
    }
}
