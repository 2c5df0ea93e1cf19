//! Ten thousand exchanges among all schedulers under load, with a witness at the disk.
//!
//! # Model
//! 64 requests are outstanding all the time: reads anywhere, writes of 4 KiB of which each has a
//! block of its own, some durable by themselves (FUA), and flushes. After every few completions
//! the scheduler is exchanged for one drawn at random, taken out, or put in again. The witness
//! is a disk that keeps account: how often each block was written, and which blocks are durable: a
//! write is once it has FUA, or once a flush has ended that came after its completion.
//!
//! - *lost*: requests that never ended, or ended with an error, and blocks that a finished write
//!   left unwritten at the end.
//! - *doubled*: requests that ended twice, and blocks that were written twice.
//! - *moved*: writes that had ended before a flush was submitted and were not durable when it
//!   ended, and writes with FUA that were not when they ended.

use crate::disks;
use crate::random::Random;
use iopace_core::engine::{Config, Control};
use iopace_core::request::{Extent, GroupId, Op, Outcome, Submit, Tag, TaskId};
use iopace_core::sched::REGISTRY;
use iopace_core::time::Instant;
use iopace_core::units::Bytes;
use iopace_disk::disk::{Command, Completion, Disk, DiskStats};
use iopace_disk::modelled::{Io, Machine, Modelled};
use iopace_disk::page_cache::PageCacheConfig;
use iopace_disk::pump::End;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Exchanges of a run.
pub const SWAPS: u64 = 10_000;

/// Completions between two of them.
const BETWEEN: u64 = 8;

/// Requests outstanding.
const OUTSTANDING: u64 = 64;

/// A block: a page, so that the page cache writes back as many as were written.
const BLOCK: Bytes = Bytes::from_kib(4);

/// Requests of a run.
const REQUESTS: u64 = SWAPS * BETWEEN + OUTSTANDING;

/// The account of a witness at the disk: the commands that it saw.
#[derive(Debug, Default)]
struct Account {
    /// Of each block: how often it was written, and its last place in `completed`.
    blocks: BTreeMap<u64, (u32, usize)>,
    /// Blocks in the order in which their writes were completed.
    completed: usize,
    /// Of `completed`, so many were complete when a flush came that has ended.
    durable: usize,
    /// Commands at the disk: what they are, and what was complete when they came.
    running: BTreeMap<u64, (Command, usize)>,
}

impl Account {
    fn ended(&mut self, id: u64) {
        let Some((command, completed)) = self.running.remove(&id) else { return };
        match command.op {
            Op::Flush => self.durable = self.durable.max(completed),
            Op::Write => {
                let first = command.extent.offset().0 / BLOCK.0;
                for block in first..first + command.extent.len().0 / BLOCK.0 {
                    self.completed += 1;
                    // A write with FUA is durable at once: it stands before all others.
                    let place = if command.fua { 0 } else { self.completed };
                    let entry = self.blocks.entry(block).or_default();
                    *entry = (entry.0 + 1, place);
                }
            }
            _ => {}
        }
    }

    fn is_durable(&self, block: u64) -> bool {
        self.blocks.get(&block).is_some_and(|(_, place)| *place <= self.durable)
    }
}

/// A disk that keeps account.
#[derive(Debug)]
struct Witness {
    disk: Box<dyn Disk>,
    account: Arc<Mutex<Account>>,
}

fn locked(account: &Mutex<Account>) -> MutexGuard<'_, Account> {
    account.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk for Witness {
    fn capacity(&self) -> Bytes {
        self.disk.capacity()
    }

    fn depth(&self) -> u32 {
        self.disk.depth()
    }

    fn is_rotational(&self) -> bool {
        self.disk.is_rotational()
    }

    fn submit(&mut self, now: Instant, command: Command) {
        let mut account = locked(&self.account);
        let completed = account.completed;
        account.running.insert(command.id, (command, completed));
        drop(account);
        self.disk.submit(now, command);
    }

    fn next(&self) -> Instant {
        self.disk.next()
    }

    fn poll(&mut self, now: Instant) -> Option<Completion> {
        let done = self.disk.poll(now)?;
        locked(&self.account).ended(done.id);
        Some(done)
    }

    fn stats(&self) -> DiskStats {
        self.disk.stats()
    }
}

/// The result of all exchanges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Exchanges that were carried out.
    pub swaps: u64,
    /// Requests and blocks that were lost.
    pub lost: u64,
    /// Requests and blocks that came twice.
    pub doubled: u64,
    /// Writes that were moved across a flush.
    pub moved: u64,
    /// Schedulers that failed.
    pub failed_over: u64,
}

/// The program: one request after the other, and what is known of each.
struct SwapLoad {
    random: Random,
    buffered: bool,
    /// Of each request: its block if it writes, and how often it has ended.
    requests: Vec<(Option<u64>, u32)>,
    /// Blocks of writes in the order in which they ended.
    written: Vec<u64>,
    /// Of those, so many were seen to be durable.
    checked: usize,
    /// Of each flush that is under way: so many writes had ended when it was submitted.
    flushes: BTreeMap<u64, usize>,
    out: Outcomes,
}

impl SwapLoad {
    fn next(&mut self) -> Io {
        let number = self.requests.len() as u64;
        let fua = self.random.below(16) == 0;
        let op = match self.random.below(20) {
            0 => Op::Flush,
            1..=10 => Op::Write,
            _ => Op::Read,
        };
        let block = if op == Op::Read { self.random.below(REQUESTS) } else { number };
        let extent = match op {
            Op::Flush => Extent::EMPTY,
            _ => Extent::new(Bytes(block * BLOCK.0), BLOCK).expect("far below 2^64"),
        };
        self.requests.push(((op == Op::Write).then_some(block), 0));
        if op == Op::Flush {
            self.flushes.insert(number, self.written.len());
        }
        let (tag, task) = (Tag(number), TaskId(1 + number % 8));
        let fua = fua && op == Op::Write;
        let submit = Submit { tag, task, group: GroupId::ROOT, op, extent, fua, sync: true };
        Io { submit, buffered: self.buffered && op != Op::Flush }
    }

    fn ended(&mut self, io: &Io, end: &End, account: &Account) {
        let request = &mut self.requests[io.submit.tag.0 as usize];
        request.1 += 1;
        self.out.doubled += u64::from(request.1 > 1);
        self.out.lost += u64::from(end.outcome != Outcome::Ok);
        if let Some(block) = request.0 {
            self.out.moved += u64::from(io.submit.fua && !account.is_durable(block));
            self.written.push(block);
        }
        if let Some(before) = self.flushes.remove(&io.submit.tag.0) {
            // Durability does not go away: what was seen once needs no second look.
            let fresh = self.checked.min(before)..before;
            let lacks = |block: &&u64| !account.is_durable(**block);
            self.out.moved += self.written[fresh].iter().filter(lacks).count() as u64;
            self.checked = self.checked.max(before);
        }
    }

    /// Exchanges the scheduler, takes it out or puts one in.
    fn swap(&mut self, machine: &mut Machine, now: Instant, inserted: &mut bool) {
        let algorithm = REGISTRY[self.random.below(REGISTRY.len() as u64) as usize];
        let control = match (*inserted, self.random.below(5)) {
            (false, _) => Control::Insert(algorithm, algorithm.defaults()),
            (true, 0) => Control::Destroy,
            (true, _) => Control::Configure(Some(algorithm), algorithm.defaults().changes()),
        };
        *inserted = !matches!(control, Control::Destroy);
        self.out.swaps += u64::from(machine.control(now, control).is_ok());
    }
}

/// Carries it out on a disk, through a page cache or without one.
///
/// # Panics
/// If there is no such disk.
pub fn run(disk: &str, buffered: bool, seed: u64) -> Outcomes {
    let account = Arc::new(Mutex::new(Account::default()));
    let disk = disks::build(disk).expect("a preset");
    let witness = Witness { disk, account: Arc::clone(&account) };
    let cache = PageCacheConfig { memory: Bytes::from_mib(64), drop_behind: true };
    let cache = buffered.then_some(cache);
    let mut machine: Machine = Modelled::pump(Config::default(), cache, Box::new(witness));
    let mut load = SwapLoad {
        random: Random::new(seed, "swaps"),
        buffered,
        requests: Vec::new(),
        written: Vec::new(),
        checked: 0,
        flushes: BTreeMap::new(),
        out: Outcomes::default(),
    };
    let (mut ended, mut now, mut inserted) = (Vec::new(), Instant::ZERO, false);
    let (mut ends, mut outstanding) = (0, 0u64);
    loop {
        while outstanding < OUTSTANDING && (load.requests.len() as u64) < REQUESTS {
            outstanding += 1;
            machine.submit(now, load.next(), &mut ended);
        }
        let at = machine.drain(now, &mut ended, |_| ());
        if ended.is_empty() {
            if at.is_never() || outstanding == 0 {
                break;
            }
            now = now.max(at);
        }
        for (io, end) in ended.drain(..) {
            load.ended(&io, &end, &locked(&account));
            outstanding = outstanding.saturating_sub(1);
            ends += 1;
            if ends % BETWEEN == 0 && load.out.swaps < SWAPS {
                load.swap(&mut machine, now, &mut inserted);
            }
        }
    }
    let account = locked(&account);
    load.out.lost += load.requests.iter().filter(|(_, ends)| *ends == 0).count() as u64;
    // Only what was flushed has to be there; a page cache may still have the rest.
    let flushed = if buffered { load.checked } else { load.written.len() };
    let missing =
        load.written[..flushed].iter().filter(|block| !account.blocks.contains_key(block));
    load.out.lost += missing.count() as u64;
    load.out.doubled += account.blocks.values().filter(|(times, _)| *times > 1).count() as u64;
    load.out.failed_over = machine.engine().stats().failed_over_count;
    load.out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(id: u64, op: Op, block: u64, fua: bool) -> Command {
        let extent = match op {
            Op::Flush => Extent::EMPTY,
            _ => Extent::new(Bytes(block * BLOCK.0), BLOCK).expect("legal"),
        };
        Command { id, op, extent, fua }
    }

    #[test]
    fn a_block_is_durable_after_a_flush_that_came_after_it_or_with_fua() {
        let mut account = Account::default();
        let submit = |account: &mut Account, command: Command| {
            let completed = account.completed;
            account.running.insert(command.id, (command, completed));
        };
        submit(&mut account, command(1, Op::Write, 1, false));
        submit(&mut account, command(2, Op::Flush, 0, false));
        submit(&mut account, command(3, Op::Write, 2, true));
        for id in [1, 3, 2] {
            account.ended(id);
        }
        assert!(!account.is_durable(1), "the flush came before its completion");
        assert!(account.is_durable(2) && !account.is_durable(3));
        submit(&mut account, command(4, Op::Flush, 0, false));
        account.ended(4);
        assert!(account.is_durable(1));
    }

    #[test]
    fn a_load_sees_what_is_lost_doubled_and_moved() {
        let mut load = SwapLoad {
            random: Random::new(1, "swaps"),
            buffered: false,
            requests: vec![(Some(0), 0), (None, 0)],
            written: Vec::new(),
            checked: 0,
            flushes: BTreeMap::new(),
            out: Outcomes::default(),
        };
        let io = |tag: u64, op: Op| Io {
            submit: Submit {
                tag: Tag(tag),
                task: TaskId(1),
                group: GroupId::ROOT,
                op,
                extent: Extent::EMPTY,
                fua: false,
                sync: true,
            },
            buffered: false,
        };
        let end = End {
            outcome: Outcome::Ok,
            times: Default::default(),
            extent: Extent::EMPTY,
            cached: false,
        };
        let account = Account::default();
        load.ended(&io(0, Op::Write), &end, &account);
        load.flushes.insert(1, load.written.len());
        load.ended(&io(1, Op::Flush), &end, &account);
        assert_eq!(load.out.moved, 1, "the write was not durable");
        load.ended(&io(0, Op::Write), &end, &account);
        assert_eq!((load.out.doubled, load.out.lost), (1, 0));
    }
}
