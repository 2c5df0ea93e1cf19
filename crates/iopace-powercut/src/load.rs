//! Random load on an image, from several clients at once, and all cuts of it.
//!
//! Each client has a region of its own, so the writes of a sector have an order. Every sector says
//! which write it is of. After a cut a sector may be of the last write that was promised to be
//! durable, or of any later one that had begun.

mod disks;

use crate::bench::Bench;
use crate::cut::{Choice, Cutter, Names};
use crate::node::{Kind, NodeId, ROOT, Random, SECTOR};
use crate::report::Report;
use crate::tree::Broken;
pub use disks::{Disk, Way};
use iopace_core::engine::Control;
use iopace_core::{pace, sched, window};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Clients at once.
const CLIENTS: u64 = 4;

/// Sectors of each.
const REGION: u64 = 64;

/// Sectors of the smallest write: a page.
const PAGE: u64 = 8;

/// Size of the image.
pub const SIZE: usize = (CLIENTS * REGION) as usize * SECTOR;

/// The content that a request leaves in its sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// This write; 0 is the beginning, and zeroes.
    Write(u64),
    /// Anything that was there before, or zeroes: trimming is advice.
    Trimmed,
}

/// A request that changes sectors.
#[derive(Clone, Copy, Debug)]
struct Done {
    sectors: (u64, u64),
    content: Content,
    /// Events that had arrived at the disk when it began.
    begin: usize,
    /// From which moment on it is durable; never, if that is not known.
    durable: usize,
    /// Its reply, in the order of all requests and replies.
    replied: u64,
}

/// A flush: its beginning in the order of all, and the moment when it was answered.
#[derive(Clone, Copy, Debug)]
struct Flush {
    asked: u64,
    durable: usize,
}

#[derive(Default)]
struct History {
    done: Mutex<Vec<Done>>,
    flushes: Mutex<Vec<Flush>>,
    order: AtomicU64,
}

impl History {
    fn next(&self) -> u64 {
        self.order.fetch_add(1, SeqCst)
    }
}

/// The content of a sector by that write.
fn stamp(sector: u64, write: u64, into: &mut [u8]) {
    for (at, word) in into.chunks_exact_mut(16).enumerate() {
        word[..8].copy_from_slice(&(sector << 16 | at as u64).to_le_bytes());
        word[8..].copy_from_slice(&write.to_le_bytes());
    }
}

/// Of which write a sector is; an error if it is of none, or of another sector.
fn read_stamp(sector: u64, data: &[u8]) -> Result<u64, String> {
    let write = u64::from_le_bytes(data[8..16].try_into().expect("eight bytes"));
    let mut wanted = [0; 16];
    if write > 0 {
        stamp(sector, write, &mut wanted);
    }
    // The rest repeats it, but for the number of the piece.
    let is_whole = |(at, piece): (usize, &[u8])| {
        let place = if write > 0 { at as u8 } else { 0 };
        piece[0] == place && piece[1..] == wanted[1..]
    };
    let is_one = data.chunks_exact(16).enumerate().all(is_whole);
    if is_one { Ok(write) } else { Err(format!("sector {sector} is garbage")) }
}

fn client(
    bench: &Bench,
    way: Way,
    (number, requests): (u64, u64),
    (history, seed): (&History, u64),
) -> io::Result<()> {
    let mut disk = way.open(bench)?;
    let mut random = Random(seed ^ number << 32);
    for request in 1..=requests {
        let asked = history.next();
        if random.below(24) == 0 {
            disk.flush()?;
            let flush = Flush { asked, durable: bench.tree.moment() };
            history.flushes.lock().unwrap_or_else(PoisonError::into_inner).push(flush);
            continue;
        }
        let len = PAGE * (1 + random.below(4));
        let first = number * REGION + PAGE * random.below((REGION - len) / PAGE + 1);
        let (offset, bytes) = (first * SECTOR as u64, len as usize * SECTOR);
        let fua = random.below(10) == 0;
        // Numbers of all clients differ, and grow with each client's requests.
        let write = request * CLIENTS + number;
        let begin = bench.tree.moment();
        let content = match random.below(12) {
            0 if way.has_zeroes() => {
                disk.zero(offset, bytes as u64, fua)?;
                Content::Write(0)
            }
            1 if way.has_zeroes() => {
                disk.trim(offset, bytes as u64, fua)?;
                Content::Trimmed
            }
            _ => {
                let mut data = vec![0; bytes];
                for (sector, into) in (first..).zip(data.chunks_exact_mut(SECTOR)) {
                    stamp(sector, write, into);
                }
                disk.write(offset, &data, fua)?;
                Content::Write(write)
            }
        };
        let durable = if fua { bench.tree.moment() } else { usize::MAX };
        let sectors = (first, first + len);
        let done = Done { sectors, content, begin, durable, replied: history.next() };
        history.done.lock().unwrap_or_else(PoisonError::into_inner).push(done);
    }
    Ok(())
}

/// Changes settings under load until told to stop.
fn exchange(bench: &Bench, stop: &AtomicBool, seed: u64) {
    let Some(device) = bench.daemon.as_ref().and_then(|daemon| daemon.devices().first()) else {
        return;
    };
    let mut random = Random(seed);
    let mut is_inserted = false;
    let mut moment = 0;
    while !stop.load(SeqCst) {
        // SLEEP: the next change is due when some more requests have arrived.
        thread::sleep(std::time::Duration::from_millis(1));
        if bench.tree.moment() < moment + 20 {
            continue;
        }
        moment = bench.tree.moment();
        let algorithm = sched::REGISTRY[random.below(sched::REGISTRY.len() as u64) as usize];
        let control = match random.below(5) {
            0 => Control::Pace(pace::REGISTRY[random.below(pace::REGISTRY.len() as u64) as usize]),
            1 => {
                let count = window::REGISTRY.len() as u64;
                Control::WindowPolicy(window::REGISTRY[random.below(count) as usize])
            }
            2 => Control::Window(1 + random.below(32) as u32),
            3 if is_inserted => {
                is_inserted = false;
                Control::Destroy
            }
            _ if is_inserted => Control::Configure(algorithm, algorithm.defaults()),
            _ => {
                is_inserted = true;
                Control::Insert(algorithm, algorithm.defaults())
            }
        };
        let _ = device.control(control);
    }
}

/// Runs load of so many requests, and cuts it at each moment.
///
/// # Errors
/// The bench does not start, or a request fails.
pub fn run(way: Way, requests: u64, broken: Broken, seed: u64) -> io::Result<Report> {
    let bench = way.bench()?;
    let disk = disks::image(&bench)?;
    bench.tree.lock().broken = broken;
    let (history, stop) = (History::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let exchanger = scope.spawn(|| exchange(&bench, &stop, seed));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (bench, history) = (&bench, &history);
                let each = (number, requests / CLIENTS);
                scope.spawn(move || client(bench, way, each, (history, seed)))
            })
            .collect();
        let ended: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        stop.store(true, SeqCst);
        let _ = exchanger.join();
        ended.into_iter().try_for_each(|end| end.unwrap_or(Err(io::ErrorKind::Other.into())))
    })?;
    Ok(cut(&bench, disk, history, seed))
}

fn cut(bench: &Bench, disk: NodeId, history: History, seed: u64) -> Report {
    let mut report = Report { workloads: 1, ..Report::default() };
    let sectors = by_sector(history);
    let (base, events) = {
        let tree = bench.tree.lock();
        (tree.base.clone(), tree.events.clone())
    };
    let mut cutter = Cutter::new(base, Names::Apart);
    let mut random = Random(seed);
    for moment in 0..=events.len() {
        if moment > 0 {
            cutter.push(&events[moment - 1]);
        }
        report.cuts += 1;
        for choice in few(&cutter, &mut random) {
            let state = cutter.state(&choice);
            let data = state.get(&disk).filter(|node| node.kind == Kind::File);
            let data = data.map_or(&[][..], |node| &node.data);
            report.checked(check(data, &sectors, moment), || {
                format!("seed {seed}, cut after event {moment}, {} open", cutter.open_count())
            });
        }
    }
    report
}

/// None, all, and some at random of each kind.
fn few(cutter: &Cutter, random: &mut Random) -> Vec<Choice> {
    let mut choices = vec![cutter.only(|_| false), cutter.only(|_| true)];
    let count = cutter.open_count() as u64;
    if count > 0 {
        let one = random.below(count) as usize;
        choices.push(cutter.only(|at| at == one));
        choices.push(cutter.only(|at| at != one));
        choices.push(cutter.sample(random));
        choices.push(cutter.sample(random));
    }
    choices
}

/// The requests of each sector in their order, with the moments from which each is durable.
fn by_sector(history: History) -> Vec<Vec<Done>> {
    let mut done = history.done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let flushes = history.flushes.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|done| done.replied);
    let mut sectors = vec![Vec::new(); (CLIENTS * REGION) as usize];
    for mut one in done {
        let covering = flushes.iter().filter(|flush| one.replied < flush.asked);
        let flushed = covering.map(|flush| flush.durable).min().unwrap_or(usize::MAX);
        one.durable = one.durable.min(flushed);
        for sector in one.sectors.0..one.sectors.1 {
            sectors[sector as usize].push(one);
        }
    }
    sectors
}

fn check(data: &[u8], sectors: &[Vec<Done>], moment: usize) -> Result<(), String> {
    if data.len() != SIZE {
        return Err(format!("the image has {} bytes", data.len()));
    }
    for (sector, (requests, data)) in sectors.iter().zip(data.chunks_exact(SECTOR)).enumerate() {
        let found = read_stamp(sector as u64, data)?;
        let begun = requests.iter().rposition(|one| one.begin <= moment);
        let mut begun = requests[..begun.map_or(0, |last| last + 1)].iter().rev();
        let mut is_trimmed = false;
        let promised = loop {
            let Some(one) = begun.next() else { break Some(0) };
            is_trimmed |= one.content == Content::Trimmed;
            if one.content == Content::Write(found) {
                break None;
            }
            if one.durable <= moment && one.content != Content::Trimmed {
                break Some(one.replied);
            }
        };
        // A trim behind the promised write: zeroes, or what was there before.
        let may_be = found == 0 && (promised == Some(0) || is_trimmed);
        if let Some(promised) = promised.filter(|_| !may_be) {
            return Err(format!(
                "sector {sector} is of write {found}, but request {promised} was durable"
            ));
        }
    }
    Ok(())
}

/// The image in a new tree.
fn tree() -> crate::tree::Shared {
    let shared = crate::tree::Shared::default();
    {
        let mut tree = shared.lock();
        tree.preset(ROOT, disks::IMAGE, crate::node::Node::file(vec![0; SIZE]));
        tree.begin(&[disks::IMAGE.as_ref()]);
    }
    shared
}
