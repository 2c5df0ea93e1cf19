//! The load generator: a client of NBD that keeps so many requests under way, in two threads, so
//! that a reply is looked at when it comes and not when the next request has been sent.

use super::tally::{Tally, Times};
use iopace_nbd::client::{Room, Wanted, encode_request, open, receive};
use iopace_nbd::wire;
use std::io::{self, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// A request that has not been answered by then will not be.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Replies are read ahead by so much.
const READ_AHEAD: usize = 64 * 1024;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// A read, a write, a read.
    Both,
}

impl Direction {
    /// Whether that request is a write.
    pub fn writes(self, number: u64) -> bool {
        match self {
            Direction::Read => false,
            Direction::Write => true,
            Direction::Both => number % 2 == 1,
        }
    }
}

/// A load.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// What is done.
    pub direction: Direction,
    /// Bytes of a request.
    pub block: u32,
    /// Requests under way.
    pub depth: usize,
    /// All over the export, or one after the other.
    pub is_random: bool,
    /// What places depend on: two connections with different seeds go different ways.
    pub seed: u64,
    /// Of two that compete, the stripes of which this one has; none: all of the export. So neither
    /// finds in a page cache what the other has read, and both have near and far places alike.
    pub side: Option<Side>,
}

/// One of two that compete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first, third, fifth stripe.
    Even,
    /// The second, fourth, sixth stripe.
    Odd,
}

/// Bytes of a stripe: more than a kernel reads ahead, and little beside a disk.
const STRIPE: u64 = 4 << 20;

impl Work {
    /// Where that request goes, in `span_bytes`, which is at least a block.
    pub fn offset(&self, number: u64, span_bytes: u64) -> u64 {
        let block = u64::from(self.block);
        let all = (span_bytes / block).max(1);
        // Blocks of a stripe: a small export has one for each.
        let stripe = (STRIPE / block).min(all / 2).max(1);
        let blocks = match self.side {
            Some(_) => (all / (2 * stripe) * stripe).max(1),
            None => all,
        };
        let place = if self.is_random && self.side.is_some() {
            once(self.seed, number, blocks)
        } else if self.is_random {
            scatter(self.seed.wrapping_add(number))
        } else {
            // Connections do not follow each other.
            number.wrapping_add(self.seed.wrapping_mul(blocks / 4))
        };
        let place = place % blocks;
        let before = |side: Side| (place / stripe * 2 + side as u64) * stripe;
        let place = self.side.map_or(place, |side| before(side) + place % stripe);
        place % all * block
    }
}

/// Far from the place before it, and each place once before any comes again: steps of about the
/// golden ratio of all (Weyl's sequence). What was read once may be in a page cache.
fn once(seed: u64, number: u64, blocks: u64) -> u64 {
    let golden = (u128::from(blocks) * 618_034 / 1_000_000) as u64 | 1;
    let has_no_divisor = |step: &u64| greatest_divisor(*step, blocks) == 1;
    let step = (golden..).step_by(2).find(has_no_divisor).unwrap_or(1);
    let place = u128::from(number) * u128::from(step) + u128::from(scatter(seed));
    (place % u128::from(blocks)) as u64
}

fn greatest_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

/// A number for a number: SplitMix64 (Steele, Lea, Flood 2014).
fn scatter(number: u64) -> u64 {
    let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Bytes that are written: not zeroes, which need not be stored.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (scatter(at / 8) >> (at % 8 * 8)) as u8).collect()
}

/// An export with a client of ours.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    /// Its size.
    pub size_bytes: u64,
    /// Its smallest request.
    pub block_min: u32,
}

impl Connection {
    /// Opens an export: `disk@/group` pays as that group.
    ///
    /// # Errors
    /// What the socket or the server said.
    pub fn open(socket: &Path, export: &str) -> io::Result<Connection> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        let session = open(&mut stream, export, Wanted::default())?;
        let block_min = session.block_sizes.map_or(1, |[min, ..]| min);
        Ok(Connection { stream, size_bytes: session.size_bytes, block_min })
    }

    /// Works until the end, or until `stop` is set; waits for what is under way and says good-bye.
    ///
    /// # Errors
    /// A request failed, or the connection.
    pub fn drive(mut self, work: &Work, times: Times, stop: &AtomicBool) -> io::Result<Tally> {
        let mut receiver = BufReader::with_capacity(READ_AHEAD, self.stream.try_clone()?);
        let submitted: Vec<AtomicU64> = (0..work.depth).map(|_| AtomicU64::new(0)).collect();
        let (free, slots) = mpsc::sync_channel(work.depth);
        let mut tally = Tally::new(times);
        let ended = thread::scope(|scope| {
            let sender = Sender { work, times, submitted: &submitted, span: self.size_bytes };
            let stream = &mut self.stream;
            let sending = scope.spawn(move || sender.run(stream, &slots));
            for slot in 0..work.depth {
                let _ = free.send(slot);
            }
            let received =
                receive_all(&mut receiver, work, (&submitted, times), stop, free, |one| {
                    tally.record(one.at, u64::from(work.block), one.latency);
                });
            if received.is_err() {
                // The sender may wait for room.
                let _ = receiver.get_ref().shutdown(Shutdown::Both);
            }
            let sent = sending.join().map_err(|_| io::Error::other("the sender panicked"))?;
            received.and(sent)
        });
        ended?;
        let mut good_bye = Vec::new();
        encode_request(&mut good_bye, wire::CMD_DISC, 0, 0, 0, 0);
        let _ = self.stream.write_all(&good_bye);
        Ok(tally)
    }
}

struct Sender<'a> {
    work: &'a Work,
    times: Times,
    submitted: &'a [AtomicU64],
    span: u64,
}

impl Sender<'_> {
    /// Sends a request for each slot that is free, until nobody frees one any more.
    fn run(&self, stream: &mut UnixStream, slots: &mpsc::Receiver<usize>) -> io::Result<()> {
        let block = self.work.block;
        let data = match self.work.direction {
            Direction::Read => Vec::new(),
            _ => pattern(block as usize),
        };
        let mut out = Vec::with_capacity(64);
        for (number, slot) in (0..).zip(slots.iter()) {
            let offset = self.work.offset(number, self.span);
            let writes = self.work.direction.writes(number);
            out.clear();
            let kind = if writes { wire::CMD_WRITE } else { wire::CMD_READ };
            // The receiver has to know which replies bring data.
            let cookie = (slot as u64) << 1 | u64::from(writes);
            encode_request(&mut out, kind, 0, cookie, offset, block);
            let now = u64::try_from(self.times.begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.submitted[slot].store(now, Relaxed);
            stream.write_all(&out)?;
            if writes {
                stream.write_all(&data)?;
            }
        }
        Ok(())
    }
}

/// A request that has finished.
struct Finished {
    at: Instant,
    latency: Duration,
}

/// Receives replies and frees their slots until the end, then those that are under way.
fn receive_all(
    receiver: &mut BufReader<UnixStream>,
    work: &Work,
    (submitted, times): (&[AtomicU64], Times),
    stop: &AtomicBool,
    free: mpsc::SyncSender<usize>,
    mut finished: impl FnMut(Finished),
) -> io::Result<()> {
    let mut data = vec![0; work.block as usize];
    let mut free = Some(free);
    let mut under_way = work.depth;
    while under_way > 0 {
        let reply = receive(receiver, |cookie| {
            (cookie & 1 == 0).then_some(Room { offset: 0, data: &mut data })
        });
        let reply = reply.map_err(io::Error::other)?;
        reply.result.map_err(|error| io::Error::other(format!("the server answered: {error}")))?;
        let slot = usize::try_from(reply.cookie >> 1).ok().filter(|slot| *slot < work.depth);
        let slot = slot.ok_or_else(|| io::Error::other("a reply to nothing that was asked"))?;
        let at = Instant::now();
        let since = at.duration_since(times.begin);
        let latency = since.saturating_sub(Duration::from_nanos(submitted[slot].load(Relaxed)));
        finished(Finished { at, latency });
        if at >= times.end || stop.load(Relaxed) {
            free = None;
        }
        match &free {
            Some(free) => free.send(slot).map_err(|_| io::Error::other("the sender has ended"))?,
            None => under_way -= 1,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lie_in_the_export_on_whole_blocks() {
        for is_random in [false, true] {
            for seed in [0, 1] {
                let (direction, depth) = (Direction::Read, 1);
                let side = None;
                let work = Work { direction, block: 4096, depth, is_random, seed, side };
                let places: std::collections::BTreeSet<u64> =
                    (0..64).map(|number| work.offset(number, 1 << 20)).collect();
                assert!(places.iter().all(|at| at % 4096 == 0 && *at < 1 << 20));
                assert!(places.len() > 32, "not always the same: {places:?}");
            }
        }
    }

    #[test]
    fn two_that_compete_have_no_place_in_common() {
        let (direction, depth) = (Direction::Read, 1);
        for (block, span) in [(4096, 64 << 20), (65536, 64 << 20), (65536, 1 << 20)] {
            let places = |side: Side| -> std::collections::BTreeSet<u64> {
                let seed = side as u64;
                let side = Some(side);
                let work = Work { direction, block, depth, is_random: true, seed, side };
                (0..4_000).map(|number| work.offset(number, span)).collect()
            };
            let (even, odd) = (places(Side::Even), places(Side::Odd));
            assert!(even.is_disjoint(&odd), "{block} of {span}");
            let last = span - u64::from(block);
            assert!(even.iter().chain(&odd).all(|at| *at <= last));
            // Both are all over it.
            let far = |places: &std::collections::BTreeSet<u64>| {
                places.last().is_some_and(|at| *at >= last - last / 2)
            };
            assert!(span < 8 << 20 || far(&even) && far(&odd), "{block} of {span}");
        }
        let one =
            Work { direction, block: 4096, depth, is_random: true, seed: 1, side: Some(Side::Odd) };
        assert_eq!(one.offset(3, 4096), 0, "an export of one block");
    }

    #[test]
    fn who_competes_reads_each_place_once_before_any_again() {
        for blocks in [1, 2, 64, 1_000, 4_096, 15_015] {
            let places: std::collections::BTreeSet<u64> =
                (0..blocks).map(|number| once(7, number, blocks)).collect();
            assert_eq!(places.len() as u64, blocks);
        }
    }

    #[test]
    fn half_of_both_are_writes() {
        let count = |direction: Direction| (0..10).filter(|at| direction.writes(*at)).count();
        let all = [Direction::Read, Direction::Write, Direction::Both].map(count);
        assert_eq!(all, [0, 10, 5]);
    }
}
