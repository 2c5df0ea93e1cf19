//! iopace's own schedulers as loadable policies: `fifo-module`, `deadline-module`, `fair-module`.
//!
//! A scheduler of iopace-core is compiled as it is and answers as the built-in one does, byte for
//! byte; what a load through a module costs is seen by comparing the two. One module has one
//! scheduler, by feature.
//!
//! # Model
//! A scheduler of the core holds names of requests and looks them up in the engine's table, which a
//! module cannot see. So it keeps a second table, a *mirror*, with the same requests in the same
//! slots:
//! ```text
//!   event      mirror                          scheduler
//!   push       put in as queued                push
//!   (popped)   started, if it learns           pop, join
//!   done       taken out                       on_done
//!   flush      put in and started              on_flush
//!   flushed    taken out                       on_flushed
//!   group      settings of the group           set_group
//! ```
//! One that does not learn is not told of ends: a request leaves the mirror when its slot is used
//! again, as the scheduler may look at it until then.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod kit;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::num::NonZeroU64;
use iopace_core::group::table::Groups;
use iopace_core::group::{Class, Rates, Settings, Weight};
use iopace_core::request::{Extent, GroupId, Op, RequestId, Space, Submit, Tag, TaskId};
use iopace_core::sched::{self, Algorithm, CounterSpec, ParamSpec, Params, Scheduler};
use iopace_core::table::{Mirrored, Table};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_core::verdict::Reason;
use kit::{Counter, DiskView, Group, Id, Load, NEVER, Parameter, Policy, Pop, Request, Start};

/// The scheduler of this module: its entry in the registry, the name that it has as a module, and
/// whether it learns and runs ahead.
#[cfg(feature = "fair")]
const CHOSEN: (&Algorithm, &str, bool, bool) =
    (&sched::fair::ALGORITHM, "fair-module", true, false);
#[cfg(all(feature = "deadline", not(feature = "fair")))]
const CHOSEN: (&Algorithm, &str, bool, bool) =
    (&sched::deadline::ALGORITHM, "deadline-module", false, false);
/// Nothing that comes later goes before what fifo has popped: it runs ahead.
#[cfg(not(any(feature = "deadline", feature = "fair")))]
const CHOSEN: (&Algorithm, &str, bool, bool) =
    (&sched::fifo::ALGORITHM, "fifo-module", false, true);

const ALGORITHM: &Algorithm = CHOSEN.0;

/// The specs of the core in the words of the kit.
const PARAMETERS: [Parameter; ALGORITHM.params.len()] = {
    let none = Parameter { name: "", unit: "", min: 0, default: 0, max: 0, doc: "" };
    let mut parameters = [none; ALGORITHM.params.len()];
    let mut at = 0;
    while at < parameters.len() {
        let ParamSpec { name, unit, min, default, max, doc } = ALGORITHM.params[at];
        parameters[at] = Parameter { name, unit, min, default, max, doc };
        at += 1;
    }
    parameters
};

const COUNTERS: [Counter; ALGORITHM.counters.len()] = {
    let mut counters = [Counter { name: "", doc: "" }; ALGORITHM.counters.len()];
    let mut at = 0;
    while at < counters.len() {
        let CounterSpec { name, doc } = ALGORITHM.counters[at];
        counters[at] = Counter { name, doc };
        at += 1;
    }
    counters
};

/// A dump is cut at so many bytes, as a call has fuel for some hundred units each.
const DUMP_BYTES_MAX: usize = 4 << 10;

/// The arrival number in a slot that no request has had.
const VACANT: u64 = u64::MAX;

/// A scheduler of the core with its mirror of the engine's tables.
struct Ported {
    scheduler: Box<dyn Scheduler>,
    params: Params,
    table: Table,
    groups: Groups,
    /// Of one that does not learn: the arrival number of the request that had each slot last.
    latest: Vec<u64>,
}

impl Ported {
    /// Puts a request into the mirror.
    fn enter(&mut self, request: &Request) -> RequestId {
        let id = core_id(request.id);
        if !Ported::LEARNS {
            self.vacate(request.id);
        }
        let (task, group) = (TaskId(request.task), GroupId(request.group));
        let extent = Extent::new(Bytes(request.offset), Bytes(request.length));
        let extent = extent.expect("the engine's extents do not wrap");
        let (tag, op, sync) = (Tag(0), core_op(request.op), request.sync);
        let submit = Submit { tag, task, group, op, extent, fua: false, sync };
        let (arrived, space) = (Instant(request.arrived), Space(request.space));
        let is_reserved = request.reserved;
        self.table.mirror(id, &Mirrored { submit, arrived, space, is_reserved });
        id
    }

    /// The slot of a request is used again: what had it before has left.
    fn vacate(&mut self, id: Id) {
        let slot = id.slot as usize;
        if slot >= self.latest.len() {
            self.latest.resize(slot + 1, VACANT);
        }
        let before = core::mem::replace(&mut self.latest[slot], id.sequence);
        if before != VACANT {
            self.table.unmirror(RequestId::at(id.slot, before));
        }
    }

    /// One was popped, or joined the one that was.
    fn starts(&mut self, id: RequestId) -> Id {
        if Ported::LEARNS {
            self.table.mirror_started(id);
        }
        Id { slot: id.slot(), sequence: id.sequence() }
    }
}

impl Policy for Ported {
    const NAME: &'static str = CHOSEN.1;
    const SUMMARY: &'static str = ALGORITHM.summary;
    const PARAMETERS: &'static [Parameter] = &PARAMETERS;
    const COUNTERS: &'static [Counter] = &COUNTERS;
    const LEARNS: bool = CHOSEN.2;
    const RUN_AHEAD: bool = CHOSEN.3;
    const DIVIDES: bool = ALGORITHM.profile.divides;

    fn new(start: Start) -> Ported {
        let params = ALGORITHM.defaults();
        let mut scheduler = (ALGORITHM.build)(&params);
        if let Some(has_head) = start.has_head {
            scheduler.set_rotational(has_head);
        }
        assert_eq!(scheduler.learns(), Ported::LEARNS, "as the description says");
        let (table, groups, latest) = (Table::default(), Groups::default(), Vec::new());
        Ported { scheduler, params, table, groups, latest }
    }

    fn push(&mut self, now: u64, request: Request) {
        let id = self.enter(&request);
        self.scheduler.push(Instant(now), id, &self.table);
    }

    fn pop(&mut self, now: u64) -> Pop {
        match self.scheduler.pop(Instant(now), &self.table) {
            sched::Pop::Ready(id) => Pop::Next(self.starts(id)),
            sched::Pop::Last(id, reason) => Pop::Last(self.starts(id), kit_reason(reason)),
            sched::Pop::At(at, reason) => Pop::At(at.0.min(NEVER), kit_reason(reason)),
            sched::Pop::Empty => Pop::Empty,
        }
    }

    fn join(&mut self, now: u64, id: Id, lead: Id) -> bool {
        let (id, lead) = (core_id(id), core_id(lead));
        let joins = self.scheduler.join(Instant(now), id, lead, &self.table);
        if joins {
            self.starts(id);
        }
        joins
    }

    fn done(&mut self, now: u64, id: Id, ok: bool) {
        let id = core_id(id);
        let request = self.table.unmirror(id).expect("it was pushed");
        self.scheduler.on_done(Instant(now), id, &request, ok);
    }

    fn flush(&mut self, now: u64, flush: Request) {
        let id = self.enter(&flush);
        self.scheduler.on_flush(Instant(now), id, &self.table);
        self.table.mirror_started(id);
    }

    fn flushed(&mut self, now: u64, id: Id) {
        let id = core_id(id);
        let flush = self.table.unmirror(id).expect("it was told of");
        self.scheduler.on_flushed(Instant(now), id, &flush);
    }

    fn group(&mut self, now: u64, id: u32, group: &Group) {
        let (id, parent) = (GroupId(id), GroupId(group.parent));
        self.groups.set(id, parent, &settings(group));
        self.scheduler.set_group(Instant(now), id, &self.groups);
    }

    fn group_gone(&mut self, id: u32) {
        self.scheduler.remove_group(GroupId(id));
        self.groups.set(GroupId(id), GroupId::ROOT, &Settings::default());
    }

    fn configure(&mut self, values: &[u64]) {
        for (spec, value) in ALGORITHM.params.iter().zip(values) {
            self.params.set(spec.name, *value).expect("values are within their bounds");
        }
        self.scheduler.configure(&self.params, &self.table);
    }

    fn counters(&self, into: &mut [u64]) {
        let mut values = Vec::with_capacity(into.len());
        self.scheduler.counters(&mut values);
        into.copy_from_slice(&values);
    }

    fn disk(&self) -> Option<DiskView> {
        let sched::DiskView { has_head, is_learned, seek } = self.scheduler.disk()?;
        Some(DiskView { has_head, is_learned, seek: seek.0 })
    }

    fn dump(&self) -> String {
        let mut dump = Cut(String::new());
        // An error is that it was cut.
        _ = write!(dump, "{:?}", self.scheduler);
        dump.0
    }

    fn wait_max(&self, load: &Load) -> Option<u64> {
        let Load { is_stream, clients: clients_count, requests, service } = *load;
        let load = sched::Load { clients_count, requests, service: Nanos(service) };
        let profile = &ALGORITHM.profile;
        let bound = if is_stream { profile.stream_wait } else { profile.closed_loop_wait };
        bound.map(|bound| bound(&self.params, &load).0)
    }
}

/// A text of a bounded length.
struct Cut(String);

impl Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > DUMP_BYTES_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

fn core_id(id: Id) -> RequestId {
    RequestId::at(id.slot, id.sequence)
}

fn core_op(op: kit::Op) -> Op {
    match op {
        kit::Op::Read => Op::Read,
        kit::Op::Write => Op::Write,
        kit::Op::Flush => Op::Flush,
        kit::Op::Trim => Op::Trim,
        kit::Op::WriteZeroes => Op::WriteZeroes,
        kit::Op::Cache => Op::Cache,
    }
}

fn kit_reason(reason: Reason) -> kit::Reason {
    match reason {
        Reason::Anticipation => kit::Reason::Anticipation,
        _ => kit::Reason::Turn,
    }
}

fn settings(group: &Group) -> Settings {
    let class = match group.class {
        kit::Class::RealTime => Class::RealTime,
        kit::Class::BestEffort => Class::BestEffort,
        kit::Class::Idle => Class::Idle,
    };
    let [rbps, wbps, riops, wiops, bps, iops] = group.guarantees.map(NonZeroU64::new);
    let latency = Some(Nanos(group.latency)).filter(|latency| *latency > Nanos::ZERO);
    Settings {
        weight: Weight::new(group.weight).expect("weights are within their bounds"),
        class,
        min: Rates { rbps, wbps, bps, riops, wiops, iops },
        latency,
        ..Settings::default()
    }
}

// The functions that iopace calls.
kit::policy!(Ported);

#[cfg(test)]
mod tests;
