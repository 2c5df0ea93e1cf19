//! The requests of all clients, and what each sector of the image may hold after a cut.

use super::{CLIENTS, REGION, SIZE};
use crate::node::SECTOR;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

/// The content that a request leaves in its sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// This write; 0 is the beginning, and zeroes.
    Write(u64),
    /// Anything that was there before, or zeroes: trimming is advice.
    Trimmed,
}

/// A request that changes sectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) client: u64,
    pub(super) sectors: (u64, u64),
    pub(super) content: Content,
    /// Events that had arrived at the disk when it began.
    pub(super) begin: usize,
    /// From which moment on it is durable; never, if that is not known.
    pub(super) durable: usize,
    /// When it was asked for, in the order of all requests and replies.
    pub(super) asked: u64,
    /// Its reply.
    pub(super) replied: u64,
    /// The client was told that it failed: it may be there, and no flush covers it.
    pub(super) has_failed: bool,
}

/// A flush that was answered: its client, its beginning and end in the order of all, and the moment
/// when it was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flush {
    pub(super) client: u64,
    pub(super) asked: u64,
    pub(super) replied: u64,
    pub(super) durable: usize,
    /// The client was told that something of what it had written before is lost.
    pub(super) has_failed: bool,
}

/// The kernel's part above iopace.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Above {
    /// An error at a flush is told to whoever flushes first, and to no other.
    pub(super) is_told_to_all: bool,
    /// Before the kernel makes a range of a block device zero, or trims it, it drops what its page
    /// cache has of the range, dirty or not: a flush at that time finds nothing to write.
    pub(super) drops: bool,
}

/// All of a run.
#[derive(Default)]
pub(super) struct History {
    done: Mutex<Vec<Done>>,
    flushes: Mutex<Vec<Flush>>,
    order: AtomicU64,
}

fn push<T>(all: &Mutex<Vec<T>>, one: T) {
    all.lock().unwrap_or_else(PoisonError::into_inner).push(one);
}

fn all<T: Clone>(all: &Mutex<Vec<T>>) -> Vec<T> {
    all.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

impl History {
    /// The next number in the order of all.
    pub(super) fn next(&self) -> u64 {
        self.order.fetch_add(1, SeqCst)
    }

    /// A change was answered.
    pub(super) fn done(&self, done: Done) {
        push(&self.done, done);
    }

    /// A flush was answered.
    pub(super) fn flushed(&self, flush: Flush) {
        push(&self.flushes, flush);
    }

    /// The requests of each sector in their order, with the moments from which each is durable. An
    /// error at a flush says to its client that what had arrived before the failure may be lost; no
    /// later flush brings it back. On a block device it says so to all, if `is_told_to_all`: the
    /// kernel tells whoever flushes first.
    ///
    /// What had arrived is not known to the client: a write that was under way when the error was
    /// told may have been lost with the others. So it counts as lost if it began before one of the
    /// `failures` (moments) that can be the reason of the error.
    pub(super) fn by_sector(&self, above: Above, failures: &[usize]) -> Vec<Vec<Done>> {
        let Above { is_told_to_all, drops } = above;
        let mut done = all(&self.done);
        let flushes = all(&self.flushes);
        done.sort_by_key(|done| done.replied);
        let mut sectors = vec![Vec::new(); (CLIENTS * REGION) as usize];
        let is_drop = |one: &&Done| drops && !matches!(one.content, Content::Write(1..));
        let dropping: Vec<Done> = done.iter().filter(is_drop).copied().collect();
        for mut one in done {
            let is_lost = |told: &Flush| {
                let from = failures.partition_point(|moment| *moment < one.begin);
                let has_failed_since = failures.get(from).is_some_and(|at| *at <= told.durable);
                told.has_failed && one.asked < told.replied && has_failed_since
            };
            let told = |flush: &Flush| {
                flushes.iter().any(|told| {
                    let is_ours =
                        is_told_to_all || [one.client, flush.client].contains(&told.client);
                    is_ours && is_lost(told) && told.asked < flush.replied
                })
            };
            let covers = |flush: &&Flush| {
                !flush.has_failed && !one.has_failed && one.replied < flush.asked && !told(flush)
            };
            // There, a durable write is a write and a flush.
            let Done { client, asked, replied, durable, .. } = one;
            let own = Flush { client, asked, replied, durable, has_failed: false };
            if is_told_to_all && told(&own) {
                one.durable = usize::MAX;
            }
            let covering: Vec<&Flush> = flushes.iter().filter(covers).collect();
            for sector in one.sectors.0..one.sectors.1 {
                let is_dropped = |flush: &Flush| {
                    dropping.iter().any(|drop| {
                        (drop.sectors.0..drop.sectors.1).contains(&sector)
                            && one.replied < drop.asked
                            && drop.asked < flush.replied
                            && flush.asked < drop.replied
                    })
                };
                let flushed = covering.iter().filter(|flush| !is_dropped(flush));
                let flushed = flushed.map(|flush| flush.durable).min().unwrap_or(usize::MAX);
                let durable = one.durable.min(flushed);
                sectors[sector as usize].push(Done { durable, ..one });
            }
        }
        sectors
    }

    /// The requests for a sector and all flushes from one moment to another, in words.
    pub(super) fn story(&self, sector: u64, (from, to): (usize, usize)) -> String {
        let mut lines = Vec::new();
        for one in all(&self.done) {
            let Done { client, sectors, content, begin, asked, replied, has_failed, .. } = one;
            if (sectors.0..sectors.1).contains(&sector) && (from..=to).contains(&begin) {
                let how = if has_failed { "failed" } else { "done" };
                let text = format!("client {client}, after event {begin}: {content:?} {how}");
                lines.push((asked, replied, text));
            }
        }
        for flush in all(&self.flushes) {
            let Flush { client, asked, replied, durable, has_failed } = flush;
            if (from..=to).contains(&durable) {
                let how = if has_failed { "failed" } else { "done" };
                let text = format!("client {client}, by event {durable}: flush {how}");
                lines.push((asked, replied, text));
            }
        }
        lines.sort();
        let line = |(asked, replied, text)| format!("\n    {asked}..{replied}: {text}");
        lines.into_iter().map(line).collect()
    }
}

/// The mark of a piece of a sector.
fn mark(sector: u64, at: usize) -> u64 {
    sector << 16 | at as u64
}

/// The content of a sector by that write.
pub(super) fn stamp(sector: u64, write: u64, into: &mut [u8]) {
    for (at, piece) in into.chunks_exact_mut(16).enumerate() {
        piece[..8].copy_from_slice(&mark(sector, at).to_le_bytes());
        piece[8..].copy_from_slice(&write.to_le_bytes());
    }
}

/// Of which writes a sector is: one, but if a page changes while it is written back (`tears`) any
/// that are in it; an error if it is of none, or of another sector.
fn read_stamp(sector: u64, data: &[u8], tears: bool) -> Result<Vec<u64>, String> {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let mut writes = Vec::new();
    for (at, piece) in data.chunks_exact(16).enumerate() {
        let (found, write) = (word(&piece[..8]), word(&piece[8..]));
        // Zeroes have no mark. Memory is written word by word, the mark first.
        let is_marked = found == if write > 0 { mark(sector, at) } else { 0 };
        let is_torn = tears && [0, mark(sector, at)].contains(&found);
        if !(is_marked || is_torn) {
            return Err(format!("sector {sector} is garbage"));
        }
        if writes.last() != Some(&write) {
            writes.push(write);
        }
    }
    if writes.len() > 1 && !tears {
        return Err(format!("sector {sector} is garbage of writes {writes:?}"));
    }
    Ok(writes)
}

/// A sector that is not as was promised.
#[derive(Debug)]
pub(super) struct Missing {
    pub(super) sector: u64,
    /// The moment when the request began that should be there.
    pub(super) since: usize,
    pub(super) why: String,
}

/// Whether the image after a cut at a moment holds what was promised.
pub(super) fn check(
    data: &[u8],
    sectors: &[Vec<Done>],
    moment: usize,
    tears: bool,
) -> Result<(), Missing> {
    if data.len() != SIZE {
        let why = format!("the image has {} bytes", data.len());
        return Err(Missing { sector: 0, since: 0, why });
    }
    for (sector, (requests, data)) in (0..).zip(sectors.iter().zip(data.chunks_exact(SECTOR))) {
        let missing = |since, why| Missing { sector, since, why };
        for found in read_stamp(sector, data, tears).map_err(|why| missing(0, why))? {
            if let Some(promised) = broken(found, requests, moment) {
                let one = requests.iter().find(|one| one.replied == promised);
                return Err(missing(
                    one.map_or(0, |one| one.begin),
                    format!("sector {sector} is of write {found}, but {promised} was durable"),
                ));
            }
        }
    }
    Ok(())
}

/// The promised request that a sector should be of, if it may not be of write `found`.
fn broken(found: u64, requests: &[Done], moment: usize) -> Option<u64> {
    let begun = requests.iter().rposition(|one| one.begin <= moment);
    let mut is_trimmed = false;
    for one in requests[..begun.map_or(0, |last| last + 1)].iter().rev() {
        is_trimmed |= one.content == Content::Trimmed;
        if one.content == Content::Write(found) {
            return None;
        }
        if one.durable <= moment && one.content != Content::Trimmed {
            // A trim behind the promised write: zeroes, or what was there before.
            return (found > 0 || !is_trimmed).then_some(one.replied);
        }
    }
    (found > 0).then_some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(client: u64, write: u64, replied: u64) -> Done {
        let content = Content::Write(write);
        let (sectors, durable, asked) = ((0, 1), usize::MAX, replied.saturating_sub(1));
        Done { client, sectors, content, begin: 0, durable, asked, replied, has_failed: false }
    }

    fn flush(client: u64, (asked, replied): (u64, u64), durable: usize, has_failed: bool) -> Flush {
        Flush { client, asked, replied, durable, has_failed }
    }

    /// From when on the write is durable.
    fn durable(one: Done, flushes: &[Flush], is_told_to_all: bool, failures: &[usize]) -> usize {
        let history = History::default();
        history.done(one);
        flushes.iter().for_each(|flush| history.flushed(*flush));
        let above = Above { is_told_to_all, drops: false };
        history.by_sector(above, failures)[0][0].durable
    }

    #[test]
    fn a_flush_covers_what_was_answered_before_but_not_what_was_said_to_be_lost() {
        let durable = |flushes: &[Flush], to_all| durable(write(0, 4, 1), flushes, to_all, &[5]);
        let (early, late) = (flush(1, (0, 3), 7, false), flush(1, (4, 5), 9, false));
        assert_eq!(durable(&[early], false), usize::MAX);
        assert_eq!(durable(&[early, late], false), 9, "by another client");
        let told = flush(0, (2, 3), 8, true);
        assert_eq!(durable(&[told, late], false), usize::MAX, "its client knows");
        let other = flush(2, (2, 3), 8, true);
        assert_eq!(
            (durable(&[other, late], false), durable(&[other, late], true)),
            (9, usize::MAX)
        );
        let told = flush(1, (2, 3), 8, true);
        assert_eq!(durable(&[told, late], false), usize::MAX, "who flushed knows");
        assert_eq!(durable(&[late, flush(0, (6, 7), 10, true)], false), 9, "promised before");
    }

    /// A write that is under way while a flush fails arrives at the disk before the failure and is
    /// lost by it; it is answered later than the error is told.
    #[test]
    fn a_write_under_way_may_be_lost_by_a_failure_but_not_by_an_older_one() {
        let one = Done { begin: 3, asked: 2, ..write(0, 4, 5) };
        let (told, late) = (flush(1, (1, 4), 8, true), flush(1, (6, 7), 12, false));
        let durable =
            |flushes: &[Flush], failures: &[usize]| durable(one, flushes, false, failures);
        assert_eq!(durable(&[told, late], &[6]), usize::MAX);
        assert_eq!(durable(&[told, late], &[2]), 12, "the failure is older than the write");
        assert_eq!(durable(&[told, late], &[9]), 12, "the error was told before the failure");
        assert_eq!(durable(&[late], &[6]), 12, "nobody was told");
        let unaware = flush(2, (6, 7), 12, false);
        assert_eq!(durable(&[told, unaware], &[6]), 12, "neither of them was told");
        let after = Done { asked: 5, replied: 6, ..one };
        assert_eq!(self::durable(after, &[told, flush(1, (7, 8), 12, false)], false, &[6]), 12);
    }

    /// The kernel makes a durable write of a block device a write and a flush. The flush of another
    /// client fails between both, and has the error.
    #[test]
    fn a_durable_write_of_a_block_device_may_be_lost_by_the_flush_of_another_client() {
        let one = Done { begin: 7, asked: 33, durable: 16, ..write(0, 20, 73) };
        let told = flush(3, (27, 71), 13, true);
        assert_eq!(durable(one, &[told], true, &[11]), usize::MAX);
        assert_eq!(durable(one, &[told], false, &[11]), 16, "no block device");
        assert_eq!(durable(one, &[told], true, &[6]), 16, "the failure is older than the write");
        assert_eq!(durable(one, &[], true, &[11]), 16, "nobody was told");
    }

    /// The dirty page of a write is dropped by a zeroing of its range that is under way, and the
    /// flush of another client finds nothing to write.
    #[test]
    fn a_flush_covers_nothing_that_is_being_made_zero_in_the_page_cache() {
        let durable = |zero: (u64, u64), asked: (u64, u64), drops: bool| {
            let history = History::default();
            history.done(write(0, 4, 1));
            history.done(Done { asked: zero.0, ..write(0, 0, zero.1) });
            history.flushed(flush(1, asked, 9, false));
            let sectors = history.by_sector(Above { is_told_to_all: true, drops }, &[]);
            sectors[0].iter().find(|one| one.replied == 1).expect("it is there").durable
        };
        assert_eq!(durable((2, 7), (3, 5), true), usize::MAX);
        assert_eq!(durable((2, 7), (3, 5), false), 9, "past the page cache");
        assert_eq!(durable((2, 3), (4, 5), true), 9, "it was zero by then");
        assert_eq!(durable((6, 7), (3, 5), true), 9, "it was flushed before");
    }

    #[test]
    fn an_older_write_is_broken_and_a_torn_one_allowed_only_if_pages_change() {
        let requests = [write(0, 4, 1), Done { durable: 5, ..write(0, 8, 2) }, write(0, 12, 3)];
        assert_eq!(
            [4, 8, 12, 0].map(|found| broken(found, &requests, 6).is_some()),
            [true, false, false, true]
        );
        assert_eq!(broken(4, &requests, 4), None);
        let (mut torn, mut later) = (vec![0; SECTOR], vec![0; SECTOR]);
        stamp(3, 4, &mut torn);
        stamp(3, 8, &mut later);
        torn[256..].copy_from_slice(&later[256..]);
        assert_eq!(read_stamp(3, &torn, true), Ok(vec![4, 8]));
        // Each part has to be allowed by itself: of one that is durable, nothing older may be left.
        let broken = |found: u64, moment| broken(found, &requests, moment).is_some();
        assert_eq!([4, 8].map(|found| broken(found, 4)), [false, false]);
        assert_eq!([4, 8].map(|found| broken(found, 6)), [true, false]);
        assert!(read_stamp(3, &torn, false).is_err() && read_stamp(4, &torn, true).is_err());
        assert_eq!(read_stamp(3, &later, false), Ok(vec![8]));
        assert_eq!(read_stamp(3, &[0; SECTOR], false), Ok(vec![0]));
    }
}
