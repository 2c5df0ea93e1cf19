//! A device with one server, a window before it, and clients that keep requests queued.

use super::super::*;
use crate::group::{Class, Settings, Weight};
use crate::request::{Extent, Op, Submit, Tag, TaskId};
use crate::table::RequestState;
use std::collections::BTreeMap;
use std::collections::VecDeque;

/// What a request costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disk {
    /// 50 us and 2 ns per byte (100 us and 3 ns for a write), wherever.
    Flash,
    /// 8 ms to get to another place, 10 us and 10 ns per byte.
    Head,
    /// As flash, several at once: the server divides itself between all that is at the device.
    Shared,
    /// As flash, but what is written is programmed afterwards for a quarter as long, and a read
    /// takes five times as long meanwhile, whatever is at the device.
    Cached,
}

/// A client that keeps `depth` requests going.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) group: GroupId,
    pub(super) task: TaskId,
    depth: u32,
    pub(super) think: Nanos,
    pub(super) sizes: Vec<u64>,
    pub(super) op: Op,
    is_sequential: bool,
    is_reserved: bool,
    pub(super) position: u64,
    pub(super) starts_at: Instant,
    due: Vec<Instant>,
    submitted: u64,
    pub(super) wait_max: Nanos,
    pub(super) first_wait: Nanos,
}

pub(super) fn client(group: u32, task: u64) -> Client {
    Client {
        group: GroupId(group),
        task: TaskId(task),
        depth: 1,
        think: Nanos::ZERO,
        sizes: vec![16_384],
        op: Op::Read,
        is_sequential: false,
        is_reserved: false,
        position: task << 36,
        starts_at: Instant::ZERO,
        due: Vec::new(),
        submitted: 0,
        wait_max: Nanos::ZERO,
        first_wait: Nanos::ZERO,
    }
}

impl Client {
    pub(super) fn depth(self, depth: u32) -> Client {
        Client { depth, ..self }
    }

    pub(super) fn sequential(self) -> Client {
        Client { is_sequential: true, sizes: vec![131_072], ..self }
    }

    pub(super) fn reserved(self) -> Client {
        Client { is_reserved: true, ..self }
    }

    pub(super) fn think_us(self, think_us: u64) -> Client {
        Client { think: Nanos::from_micros(think_us), ..self }
    }

    pub(super) fn sizes(self, sizes: &[u64]) -> Client {
        Client { sizes: sizes.into(), ..self }
    }
}

pub(super) fn settings(weight: u32, class: Class) -> Settings {
    let weight = Weight::new(weight).expect("legal");
    Settings { weight, class, ..Settings::default() }
}

/// One at the device: the service that it still needs.
struct Work {
    id: RequestId,
    request: Request,
    left: u64,
    cost: u64,
}

pub(super) struct Bench {
    pub(super) fair: Fair,
    pub(super) groups: Groups,
    pub(super) table: Table,
    pub(super) now: Instant,
    disk: Disk,
    window: usize,
    head: u64,
    programs_until: Instant,
    sequence: u64,
    work: VecDeque<Work>,
    service: BTreeMap<GroupId, (u64, u64)>,
    /// When each of those that were pushed by hand started.
    pub(super) started: BTreeMap<u64, Instant>,
    by_hand: Vec<u64>,
    /// Time with nothing at the device and something queued.
    pub(super) idle_total: Nanos,
    pub(super) idle_max: Nanos,
    /// Least that was at the device after a dispatch.
    pub(super) least_in_flight: usize,
}

impl Bench {
    pub(super) fn new(disk: Disk, window: u32, set: &[(&str, u64)]) -> Bench {
        let mut params = ALGORITHM.defaults();
        for (name, value) in set {
            params.set(name, *value).expect("legal");
        }
        Bench {
            fair: Fair::from(&params),
            groups: Groups::default(),
            table: Table::default(),
            now: Instant::ZERO,
            disk,
            window: window as usize,
            head: 0,
            programs_until: Instant::ZERO,
            sequence: 0,
            work: VecDeque::new(),
            service: BTreeMap::new(),
            started: BTreeMap::new(),
            by_hand: Vec::new(),
            idle_total: Nanos::ZERO,
            idle_max: Nanos::ZERO,
            least_in_flight: usize::MAX,
        }
    }

    pub(super) fn group(&mut self, id: u32, parent: u32, settings: &Settings) {
        self.groups.set(GroupId(id), GroupId(parent), settings);
        self.fair.set_group(self.now, GroupId(id), &self.groups);
    }

    /// Device time that a group's own tasks have had, in ns.
    pub(super) fn service(&self, group: u32) -> u64 {
        self.service.get(&GroupId(group)).map_or(0, |service| service.0)
    }

    /// Requests at the device.
    pub(super) fn in_flight(&self) -> usize {
        self.work.len()
    }

    /// The counts of service begin anew.
    pub(super) fn begin_anew(&mut self) {
        self.service.clear();
    }

    /// Requests of a group's own tasks that are done.
    pub(super) fn served(&self, group: u32) -> u64 {
        self.service.get(&GroupId(group)).map_or(0, |service| service.1)
    }

    /// Asserts that the groups had device time in these proportions, each to `permille`.
    pub(super) fn assert_shares(&self, shares: &[(u32, u64)], permille: u64) {
        let sum: u64 = shares.iter().map(|(_, share)| share).sum();
        let total: u64 = shares.iter().map(|(group, _)| self.service(*group)).sum();
        for (group, share) in shares {
            let (had, due) = (self.service(*group), total * share / sum);
            let off = had.abs_diff(due) * 1_000 / due;
            assert!(off <= permille, "group {group} had {had} of {total} ns, {due} were due");
        }
    }

    /// A request of 4 KiB by hand.
    pub(super) fn push(&mut self, group: u32, task: u64, is_reserved: bool) -> u64 {
        let offset = (task << 36) + self.sequence * 10_000_019 % (1 << 30);
        self.submit((GroupId(group), TaskId(task)), Op::Read, offset, 4096, is_reserved)
    }

    /// A request of 4 KiB of a task of the root by hand.
    pub(super) fn push_op(&mut self, task: u64, op: Op) -> u64 {
        let offset = (task << 36) + self.sequence * 10_000_019 % (1 << 30);
        self.submit((GroupId::ROOT, TaskId(task)), op, offset, 4096, false)
    }

    pub(super) fn push_at(&mut self, group: u32, task: u64, offset: u64) -> u64 {
        let key = (GroupId(group), TaskId(task));
        let sequence = self.submit(key, Op::Read, offset, 4096, false);
        self.by_hand.push(sequence);
        sequence
    }

    /// A request of a task of the root by hand, at that offset.
    pub(super) fn submit_at(&mut self, task: u64, op: Op, offset: u64, len: u64) -> u64 {
        self.submit((GroupId::ROOT, TaskId(task)), op, offset, len, false)
    }

    /// The next request goes to the device, which must be that one, and takes so long.
    pub(super) fn serve_in(&mut self, sequence: u64, took: Nanos) {
        let id = loop {
            match self.fair.pop(self.now, &self.table) {
                Pop::Ready(id) | Pop::Last(id, _) => break id,
                Pop::At(at, _) => self.now = at,
                Pop::Empty => panic!("it holds nothing"),
            }
        };
        assert_eq!(id.sequence(), sequence);
        let request = self.table[id];
        self.now = self.now + took;
        self.table.end(id);
        self.fair.on_done(self.now, id, &request, true);
    }

    fn submit(
        &mut self,
        (group, task): (GroupId, TaskId),
        op: Op,
        offset: u64,
        len: u64,
        is_reserved: bool,
    ) -> u64 {
        let extent = Extent::new(Bytes(offset), Bytes(len)).expect("small");
        let tag = Tag(self.sequence);
        let submit = Submit { tag, task, group, op, extent, fua: false, sync: true };
        self.sequence += 1;
        let id = self.table.queue(self.now, submit);
        self.table.advance(id, RequestState::Queued).request.reserved = is_reserved;
        self.fair.push(self.now, id, &self.table);
        id.sequence()
    }

    /// Runs until nothing is left to do or `until` has come.
    pub(super) fn run(&mut self, clients: &mut [Client], until: Instant) {
        for client in clients.iter_mut().filter(|client| client.due.is_empty()) {
            client.due = vec![client.starts_at.max(self.now); client.depth as usize];
        }
        while self.now < until {
            self.submit_due(clients);
            let held = self.dispatch(clients);
            let due = clients.iter().flat_map(|client| client.due.iter().copied()).min();
            let done = self.first_done();
            let due = due.unwrap_or(Instant::NEVER);
            let next = held.min(due).min(done).min(until);
            if next.is_never() || (self.work.is_empty() && self.fair.len == 0 && due.is_never()) {
                return;
            }
            if self.work.is_empty() && self.fair.len > 0 {
                self.idle_total += next.since(self.now);
                self.idle_max = self.idle_max.max(next.since(self.now));
            }
            self.pass(next);
            self.complete(clients);
        }
    }

    fn submit_due(&mut self, clients: &mut [Client]) {
        for client in clients {
            for at in 0..client.due.len() {
                if client.due[at] > self.now {
                    continue;
                }
                client.due[at] = Instant::NEVER;
                let size = client.sizes[client.submitted as usize % client.sizes.len()];
                client.submitted += 1;
                let offset = client.position;
                let step = if client.is_sequential { size } else { 7_000_000_039 };
                client.position = (client.task.0 << 36) + (offset + step) % (1 << 36);
                if client.is_sequential {
                    client.position = offset + step;
                }
                let key = (client.group, client.task);
                self.submit(key, client.op, offset, size, client.is_reserved);
            }
        }
    }

    /// Fills the window; until when nothing more comes.
    fn dispatch(&mut self, clients: &mut [Client]) -> Instant {
        while self.work.len() < self.window {
            let id = match self.fair.pop(self.now, &self.table) {
                Pop::Ready(id) | Pop::Last(id, _) => id,
                Pop::At(at, _) => {
                    assert!(at > self.now && !(at.is_never() && self.work.is_empty()));
                    return at;
                }
                Pop::Empty => {
                    assert_eq!(self.fair.len, 0, "it holds something");
                    return Instant::NEVER;
                }
            };
            if self.by_hand.contains(&id.sequence()) {
                self.started.insert(id.sequence(), self.now);
            }
            let request = &self.table[id];
            let key = (request.group(), request.task());
            let waited = self.now.since(request.arrived());
            if let Some(client) = clients.iter_mut().find(|it| (it.group, it.task) == key) {
                client.wait_max = client.wait_max.max(waited);
                if client.service_is_first() {
                    client.first_wait = waited;
                }
            }
            self.start(id);
        }
        if self.fair.len > 0 {
            self.least_in_flight = self.least_in_flight.min(self.work.len());
        }
        Instant::NEVER
    }

    fn start(&mut self, id: RequestId) {
        let request = self.table[id];
        let (op, extent) = (request.op(), request.extent());
        let is_near = self.head == extent.offset().get();
        self.head = extent.end().get();
        let (write, read) = (100_000 + 3 * extent.len().get(), 50_000 + 2 * extent.len().get());
        let cost = match self.disk {
            Disk::Cached if op.is_write() => {
                self.programs_until = self.programs_until.max(self.now) + Nanos(write / 4);
                write
            }
            Disk::Cached if self.now < self.programs_until => 5 * read,
            Disk::Flash | Disk::Shared if op.is_write() => write,
            Disk::Flash | Disk::Shared | Disk::Cached => read,
            Disk::Head => 10_000 + 10 * extent.len().get() + u64::from(!is_near) * 8_000_000,
        };
        self.work.push_back(Work { id, request, left: cost, cost });
    }

    /// When the next one is done.
    fn first_done(&self) -> Instant {
        let left = match self.disk {
            Disk::Shared => {
                let left = self.work.iter().map(|work| work.left).min();
                left.map(|left| left * self.work.len() as u64)
            }
            _ => self.work.front().map(|work| work.left),
        };
        left.map_or(Instant::NEVER, |left| self.now + Nanos(left.max(1)))
    }

    /// The device works until `next`.
    fn pass(&mut self, next: Instant) {
        let passed = next.since(self.now).0;
        let count = self.work.len() as u64;
        match self.disk {
            Disk::Shared => {
                for work in &mut self.work {
                    work.left = work.left.saturating_sub(passed.div_ceil(count));
                }
            }
            _ => {
                if let Some(work) = self.work.front_mut() {
                    work.left -= passed.min(work.left);
                }
            }
        }
        self.now = next;
    }

    fn complete(&mut self, clients: &mut [Client]) {
        while let Some(at) = self.work.iter().position(|work| work.left == 0) {
            let Work { id, request, cost, .. } = self.work.remove(at).expect("just found");
            let service = self.service.entry(request.group()).or_default();
            *service = (service.0 + cost, service.1 + 1);
            let key = (request.group(), request.task());
            if let Some(client) = clients.iter_mut().find(|it| (it.group, it.task) == key)
                && let Some(due) = client.due.iter_mut().find(|due| due.is_never())
            {
                *due = self.now + client.think;
            }
            self.table.end(id);
            self.fair.on_done(self.now, id, &request, true);
        }
    }
}

impl Client {
    /// Whether none of its requests has been served yet.
    fn service_is_first(&self) -> bool {
        self.submitted <= u64::from(self.depth)
            && self.first_wait == Nanos::ZERO
            && self.due.iter().all(|due| due.is_never())
    }
}
