//! Random load on an image, from several clients at once, and all cuts of it.
//!
//! Each client has a region of its own, so the writes of a sector have an order. Every sector says
//! which write it is of. After a cut a sector may be of the last write that was promised to be
//! durable, or of any later one that had begun.

mod block;
mod disk;
mod disks;
mod history;
mod mapped;

use crate::bench::Bench;
use crate::cut::{Choice, Cutter, Event, Names};
use crate::faults::{self, Failure};
use crate::node::{Change, Fill, NodeId, NodeKind, ROOT, Random, SECTOR};
use crate::report::Report;
use crate::tree::Broken;
pub use disk::Disk;
pub use disks::DiskAccess;
use history::{Above, Content, Done, Flush, History, check, stamp};
use iopace_core::engine::Control;
use iopace_core::{pace, sched, window};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

/// Clients at once.
const CLIENTS: u64 = 4;

/// Sectors of each.
const REGION: u64 = 64;

/// Sectors of the smallest write: a page.
const PAGE: u64 = 8;

/// Size of the image.
pub const SIZE: usize = (CLIENTS * REGION) as usize * SECTOR;

/// One of so many writes and syncs fails, where the disk has errors.
const FAILS_ONE_IN: u64 = 25;

/// The same of a disk that hides some of its errors.
const HIDDEN_FAILS_ONE_IN: u64 = 8;

/// The faults of the disk below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disorder {
    /// It keeps its word, or breaks it without a word.
    Quiet(Broken),
    /// Writes and syncs fail now and then, and it says so.
    Errors,
    /// The same more often, but every other write-back that fails is answered as if it had not.
    Hidden,
}

/// A request of a client: where it is, and how it goes.
struct Asked {
    sectors: (u64, u64),
    write: u64,
    fua: bool,
    is_trim: bool,
    is_zero: bool,
}

/// Whether it was done; an error other than that of a disk ends the run.
fn told(done: io::Result<()>) -> io::Result<bool> {
    match done {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes a request and notes it down.
fn change(
    (bench, history): (&Bench, &History),
    (way, client): (DiskAccess, u64),
    disk: &mut dyn Disk,
    asked: &Asked,
) -> io::Result<()> {
    let Asked { sectors, write, fua, .. } = *asked;
    let (offset, len) = (sectors.0 * SECTOR as u64, (sectors.1 - sectors.0) as usize * SECTOR);
    let (begin, start) = (bench.tree.moment(), history.next());
    let (content, done) = if asked.is_zero {
        (Content::Write(0), disk.zero(offset, len as u64, fua))
    } else if asked.is_trim {
        (Content::Trimmed, disk.trim(offset, len as u64, fua))
    } else {
        // Direct writes are of whole pages in memory as well.
        let mut room = vec![0; len + 4096];
        let at = room.as_ptr().align_offset(4096);
        let data = &mut room[at..at + len];
        for (sector, into) in (sectors.0..).zip(data.chunks_exact_mut(SECTOR)) {
            stamp(sector, write, into);
        }
        (Content::Write(write), disk.write(offset, data, fua))
    };
    let has_failed = !told(done)?;
    let moment = bench.tree.moment();
    let durable = if fua && !has_failed { moment } else { usize::MAX };
    let replied = history.next();
    history.done(Done {
        client,
        sectors,
        content,
        begin,
        durable,
        asked: start,
        replied,
        has_failed,
    });
    // A durable write syncs the same open file: it may have told of earlier writes. Before the
    // kernel clears a range of a block device it drops what it has of it in its page cache.
    let tells = fua && !way.is_nbd() || way.is_block() && (asked.is_zero || asked.is_trim);
    if has_failed && tells {
        let (asked, replied) = (start, history.next());
        history.flushed(Flush { client, asked, replied, durable: moment, has_failed });
    }
    Ok(())
}

fn flush(bench: &Bench, history: &History, client: u64, disk: &mut dyn Disk) -> io::Result<()> {
    let asked = history.next();
    let has_failed = !told(disk.flush())?;
    let (durable, replied) = (bench.tree.moment(), history.next());
    history.flushed(Flush { client, asked, replied, durable, has_failed });
    Ok(())
}

fn client(
    bench: &Bench,
    (way, mut disk): (DiskAccess, Box<dyn Disk>),
    (number, requests): (u64, u64),
    (history, seed): (&History, u64),
) -> io::Result<()> {
    let mut random = Random(seed ^ number << 32);
    for request in 1..=requests {
        if random.below(24) == 0 {
            flush(bench, history, number, &mut *disk)?;
            continue;
        }
        let len = PAGE * (1 + random.below(4));
        let first = number * REGION + PAGE * random.below((REGION - len) / PAGE + 1);
        let fua = random.below(10) == 0;
        let kind = random.below(12);
        let asked = Asked {
            sectors: (first, first + len),
            // Numbers of all clients differ, and grow with each client's requests.
            write: request * CLIENTS + number,
            fua,
            is_zero: kind == 0,
            is_trim: kind == 1,
        };
        change((bench, history), (way, number), &mut *disk, &asked)?;
    }
    Ok(())
}

/// Changes settings under load until told to stop.
fn exchange(bench: &Bench, stop: &AtomicBool, seed: u64) {
    let Some(device) = bench.daemon.as_ref().and_then(|daemon| daemon.devices().first().cloned())
    else {
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
            _ if is_inserted => Control::Configure(Some(algorithm), algorithm.defaults().changes()),
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
/// The bench does not start, or a request fails that should not.
pub fn run(way: DiskAccess, requests: u64, disorder: Disorder, seed: u64) -> io::Result<Report> {
    let bench = way.bench()?;
    let image = disks::image(&bench)?;
    // All connect before anything fails: one that comes later is not told of it.
    let disks: io::Result<Vec<_>> = (0..CLIENTS).map(|_| way.open(&bench)).collect();
    let disks = disks?;
    begin(&bench, disorder, seed);
    let (history, stop) = (History::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let exchanger = scope.spawn(|| exchange(&bench, &stop, seed));
        let clients: Vec<_> = (0..)
            .zip(disks)
            .map(|(number, disk)| {
                let (bench, history) = (&bench, &history);
                let each = (number, requests / CLIENTS);
                scope.spawn(move || client(bench, (way, disk), each, (history, seed)))
            })
            .collect();
        let ended: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        stop.store(true, SeqCst);
        let _ = exchanger.join();
        ended.into_iter().try_for_each(|end| end.unwrap_or(Err(io::ErrorKind::Other.into())))
    })?;
    Ok(cut(&bench, way, (image, history), seed))
}

/// One client writes, without a sync; another one, that writes nothing, flushes after each.
///
/// # Errors
/// The bench does not start, or a request fails.
pub fn run_crossed(way: DiskAccess, writes: u64, broken: Broken, seed: u64) -> io::Result<Report> {
    let bench = way.bench()?;
    let image = disks::image(&bench)?;
    let (mut writer, mut flusher) = (way.open(&bench)?, way.open(&bench)?);
    begin(&bench, Disorder::Quiet(broken), seed);
    let (history, mut random) = (History::default(), Random(seed));
    for write in 1..=writes {
        let len = PAGE * (1 + random.below(4));
        let first = PAGE * random.below((REGION - len) / PAGE + 1);
        let sectors = (first, first + len);
        let asked = Asked { sectors, write, fua: false, is_trim: false, is_zero: write % 7 == 0 };
        change((&bench, &history), (way, 0), &mut *writer, &asked)?;
        flush(&bench, &history, 1, &mut *flusher)?;
    }
    drop((writer, flusher));
    Ok(cut(&bench, way, (image, history), seed))
}

/// One client writes, the flush of another one fails, and then the first one flushes. If the kernel
/// `forgets`, that flush seems to succeed.
///
/// # Errors
/// The bench does not start, or a request fails that should not.
pub fn run_told(way: DiskAccess, writes: u64, forgets: bool, seed: u64) -> io::Result<Report> {
    let bench = way.bench()?;
    let image = disks::image(&bench)?;
    let (mut writer, mut flusher) = (way.open(&bench)?, way.open(&bench)?);
    bench.tree.lock().faults.forgets = forgets;
    let history = History::default();
    for write in 1..=writes {
        let first = PAGE * (write % (REGION / PAGE));
        let sectors = (first, first + PAGE);
        let asked = Asked { sectors, write, fua: false, is_trim: false, is_zero: false };
        change((&bench, &history), (way, 0), &mut *writer, &asked)?;
        bench.tree.lock().faults.begin(1, seed + write);
        flush(&bench, &history, 1, &mut *flusher)?;
        bench.tree.lock().faults.begin(0, 0);
        flush(&bench, &history, 0, &mut *writer)?;
    }
    drop((writer, flusher));
    Ok(cut(&bench, way, (image, history), seed))
}

/// From now on the disk is as it is to be.
fn begin(bench: &Bench, disorder: Disorder, seed: u64) {
    let mut tree = bench.tree.lock();
    match disorder {
        Disorder::Quiet(broken) => tree.broken = broken,
        Disorder::Errors => tree.faults.begin(FAILS_ONE_IN, seed),
        Disorder::Hidden => {
            tree.faults.hides = true;
            tree.faults.begin(HIDDEN_FAILS_ONE_IN, seed);
        }
    }
}

fn cut(bench: &Bench, way: DiskAccess, (disk, history): (NodeId, History), seed: u64) -> Report {
    let (base, events, failures) = {
        let tree = bench.tree.lock();
        (tree.base.clone(), tree.events.clone(), tree.faults.failures.clone())
    };
    // A page cache above iopace loses what could not be written as well.
    let is_cached = way.is_block() || way.is_mapped();
    let loses = |one: &&Failure| match one.kind {
        faults::FaultKind::WriteBack => true,
        faults::FaultKind::Write(_) => is_cached,
        faults::FaultKind::Told => false,
    };
    let losses: Vec<usize> = failures.iter().filter(loses).map(|one| one.moment).collect();
    let drops = way == DiskAccess::Loop { direct: false };
    let above = Above { is_told_to_all: way.is_block(), drops };
    // The kernel lets a page change while it writes it back, unless the disk asks for stable ones.
    // A sector may be of several writes then, each of which it may be of by itself.
    let tears = way.is_mapped() || way == DiskAccess::Loop { direct: false };
    let sectors = history.by_sector(above, &losses);
    let errors = failures.len() as u64;
    let mut report = Report { workloads: 1, errors, ..Report::default() };
    let mut cutter = Cutter::new(base, Names::Apart);
    let mut random = Random(seed);
    for moment in 0..=events.len() {
        if moment > 0 {
            cutter.push(&events[moment - 1]);
        }
        report.cuts += 1;
        for choice in few(&cutter, &mut random) {
            let state = cutter.state(&choice);
            let data = state.get(&disk).filter(|node| node.kind == NodeKind::File);
            let data = data.map_or(&[][..], |node| &node.data);
            let checked = check(data, &sectors, moment, tears).map_err(|missing| {
                let range = (missing.since, moment);
                let is_first = report.violations == 0;
                let story = is_first.then(|| history.story(missing.sector, range));
                let below = is_first.then(|| arrivals(missing.sector, range, &events, &failures));
                missing.why + &story.unwrap_or_default() + &below.unwrap_or_default()
            });
            report.checked(checked, || {
                format!("seed {seed}, cut after event {moment}, {} open", cutter.open_count())
            });
        }
    }
    report
}

/// The arrivals at the disk for a sector, the syncs and the failures there, in words.
fn arrivals(
    sector: u64,
    (from, to): (usize, usize),
    events: &[Event],
    failures: &[Failure],
) -> String {
    let mut lines = Vec::new();
    let range = (sector * SECTOR as u64, (sector + 1) * SECTOR as u64);
    for (at, event) in events.iter().enumerate().take(to).skip(from) {
        let text = match event {
            Event::Change(Change::Fill { offset, fill, .. })
                if *offset < range.1 && range.0 < offset + fill.len() =>
            {
                match fill {
                    Fill::Data(data) => {
                        let at = (range.0 - offset) as usize + 8;
                        let word = data[at..at + 8].try_into().expect("eight bytes");
                        format!("write {}", u64::from_le_bytes(word))
                    }
                    other => format!("{other:?}"),
                }
            }
            Event::Sync(sync) => format!("sync of {:?}", sync.range),
            Event::Lost(..) => "what is open is lost".into(),
            _ => continue,
        };
        lines.push((at, text));
    }
    for Failure { moment, handle, kind } in failures {
        if (from..=to).contains(moment) {
            lines.push((*moment, format!("handle {handle} is told of {kind:?}")));
        }
    }
    lines.sort();
    lines.into_iter().map(|(at, text)| format!("\n    event {at}: {text}")).collect()
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
