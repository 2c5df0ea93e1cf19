//! What a request costs in device time, learned from completions.
//!
//! # Model
//! Linear, as iocost's: `cost = base[direction][sequential or random] + bytes x slope[direction]`.
//! Six coefficients, each kept in 1/256 ns. A request is sequential when it begins where the one
//! that went to the device before it ended: that says whether the *device* has to seek, whoever
//! asked.
//! A small gap is not sequential: a disk may need most of a revolution for it. A read that goes on
//! where the read before ended, with a write in between, is neither: with a write cache the head
//! may not have moved. As long as a head is believed in nothing is learned from it.
//!
//! With several requests at the device, the time from start to completion of one is not its device
//! time, and neither is the gap since the last completion: on flash a large read that completes
//! among small ones would seem as cheap as they are. What is certain is the time that the device
//! was busy and what it did in it. So an *interval* collects busy time, counts and bytes until
//! nothing is left at the device (at depth one: one request), or twice as many have completed as
//! are left (and 50 ms have passed on flash), and gives one equation:
//! ```text
//! busy = sum over j of x_j c_j     x: requests of each kind, KiB; c: coefficients
//! ```
//! The six coefficients are the least squares of the *relative* errors of the last intervals (some
//! hundred, older ones halved away), found by coordinate descent: a sweep now and then, as one is
//! cheap and the solution moves slowly. A coefficient that the load says nothing about keeps its
//! value, at first a data sheet's. Bases come before slopes in a sweep: what the load does not tell
//! apart is taken for a seek, as devices differ more in that than in bandwidth. Sums and shares are
//! right either way. When a coefficient doubles or halves in one sweep, what was collected was
//! weighed by wrong expectations and is dropped.
//!
//! # Sources
//! Linear model: Linux blk-iocost.c, whose built-in SATA flash (489/428 MB/s, 8 518/21 940 random
//! IOPS) is the start where no head is said to be. Coordinate descent is the method of Gauss and
//! Seidel.

use super::quick::Quick;
use crate::request::{Op, Position};
use crate::sched::DiskView;
use crate::table::Request;
use crate::time::Nanos;

/// Fixed-point bits of a coefficient.
const FRACTION: u32 = 8;

/// Intervals after which the older half of what is known is halved: a changed device is followed
/// within some hundred requests at depth one, and the rotation of a disk is averaged over as many.
const MEMORY: u32 = 128;

/// Least length of an interval with requests left at the device. What is half done at its ends is
/// an error, the larger the shorter it is: a flash that works on sixteen at once, some of 1 MiB,
/// takes 5 ms for one of them. A head does one after the other.
const INTERVAL: Nanos = Nanos::from_millis(50);

/// Completions between two sweeps.
const SWEEP_AFTER: u32 = 8;

/// Intervals in which a coefficient must have had a part before it is moved: fewer are noise. For
/// slopes more, so that bases take the blame first.
const EVIDENCE_BASE: u32 = 4;
const EVIDENCE_SLOPE: u32 = 32;

/// A kind that is less than a sixteenth of an interval has no part in it: what it is said to cost
/// would be the noise of the others.
const RARE: u64 = 16;

/// Most sweeps at a time, after an interval of many requests.
const SWEEPS_MAX: u32 = 16;

/// Weights of intervals make every expectation this many bits long (1 s at most), squared.
const WEIGHT_BITS: u32 = 30;

/// Least and largest base cost, in 1/256 ns: 100 ns (a RAM disk) and 1 s.
const BASE_BOUNDS: (i64, i64) = (100 << FRACTION, 1_000_000_000 << FRACTION);

/// Least and largest slope, in 1/256 ns per KiB: 256 GB/s and 15 KB/s.
const SLOPE_BOUNDS: (i64, i64) = (4 << FRACTION, 67_000_000 << FRACTION);

/// A larger request counts as this large.
const BYTES_MAX: u64 = 512 << 20;

/// A longer time for one interval is an error of the device (30 s for a lost command), no cost.
pub(super) const BUSY_MAX: Nanos = Nanos::from_millis(500);

/// Requests of a kind after which its base is believed: two sweeps.
const KNOWN: u32 = 16;

/// What a seek costs at least on a disk with a head: one that orders 31 commands by itself (NCQ)
/// still takes half a millisecond for each, and no flash needs 0.3 ms more for a random read than
/// for a sequential one.
const SEEK_MIN: u64 = 400_000;

/// What a seek is taken for on a disk that is said to have a head, until it is known: the average
/// of data sheets of 7200 rpm disks (Seagate Barracuda, WD Black).
const SEEK_PRESUMED: Nanos = Nanos::from_micros(8_500);

/// The costs of requests at first, sequential, at random and per KiB, in ns; reads and writes: of a
/// SATA flash, and of a disk that is said to have a head. The head reads 100 MB/s. With the slope
/// of flash a large read of a head, whose bytes cost five times as many, would be taken for a dear
/// beginning, and a sequential request for one that costs as much as a seek: no head would ever be
/// seen. A seek is presumed at little: where it costs more the first intervals say so, and what was
/// presumed too high is a debt that lasts: with a data sheet's 12.7 ms a group to which a third is
/// due has 0.27 where 31 commands are at the disk. Its writes go into a cache.
const FLASH: [[i64; 3]; 2] = [[104_000, 109_000, 2_094], [25_000, 36_000, 2_393]];
const HEAD: [[i64; 3]; 2] = [[104_000, 1_500_000, 10_240], FLASH[1]];

/// Kinds of coefficients: base of sequential and of random requests, and slope.
const RANDOM: usize = 1;
const SLOPE: usize = 2;

/// A kind of request: its direction, its place and its size.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestKind {
    pub(super) bytes: u32,
    pub(super) is_write: bool,
    pub(super) is_random: bool,
    /// Whether a seek was needed cannot be told.
    pub(super) is_unclear: bool,
}

/// The learned model of one device.
#[derive(Debug, Default)]
pub(super) struct Model {
    /// In 1/256 ns, slopes per KiB; all positive.
    coefficients: [[i64; 3]; 2],
    /// Completions of each kind, saturating.
    seen: [[u32; 2]; 2],
    /// Which coefficients are no data sheet's any more, a bit for each.
    learned: u8,
    /// Over the intervals, weighted: sums of `x_i x_j` and of `x_i busy`.
    products: [[i128; 6]; 6],
    times: [i128; 6],
    intervals: u32,
    /// Completions since the last sweep.
    unswept: u32,
    /// Intervals in which each coefficient had a part.
    parts: [u32; 6],
    /// The open interval: requests of each kind and bytes, busy time in ns, completions.
    counts: [[u64; 3]; 2],
    busy: u64,
    completions: u32,
    /// Whether something in the interval failed, which says nothing about cost.
    is_spoilt: bool,
    /// Whether it has a read in it of which it cannot be told whether a seek was needed.
    is_unclear: bool,
    /// Where the last request that went to the device ended.
    head: Option<Position>,
    /// Where the last read ended.
    read_to: Option<Position>,
    has_head: bool,
    /// What is said of the device: that it has no head, whatever its requests cost, or has one.
    said: Option<bool>,
    quick: Quick,
}

impl Model {
    /// Nothing learned: the data sheet.
    pub(super) fn new() -> Model {
        let mut model = Model::default();
        model.presume(&FLASH);
        model
    }

    /// What is known of the device. That it has a head is believed until requests at random show
    /// what they cost, or large ones are too quick: virtual disks say so, whatever they are on.
    pub(super) fn set_rotational(&mut self, is_rotational: bool) {
        self.said = Some(is_rotational);
        self.has_head = is_rotational;
        self.presume(if is_rotational { &HEAD } else { &FLASH });
    }

    /// Takes these costs, in ns, for what is not learned yet.
    fn presume(&mut self, costs: &[[i64; 3]; 2]) {
        for at in (0..6).filter(|at| self.learned & 1 << at == 0) {
            self.coefficients[at / 3][at % 3] = costs[at / 3][at % 3] << FRACTION;
        }
    }

    /// What kind a request is that goes to the device now and counts for so many bytes.
    pub(super) fn starts(&mut self, request: &Request, bytes: u64) -> RequestKind {
        let begin = request.begin();
        let is_next = self.head == Some(begin);
        let is_write = request.op().is_write();
        let is_unclear = !is_write && !is_next && self.read_to == Some(begin);
        if request.op() != Op::Flush {
            self.head = Some(request.end());
        }
        if !is_write {
            self.read_to = self.head;
        }
        RequestKind {
            is_write,
            is_random: !is_next,
            is_unclear,
            bytes: bytes.min(BYTES_MAX) as u32,
        }
    }

    /// A request of so many bytes goes to the device in the command of another one, of that kind:
    /// by how much the command costs more.
    pub(super) fn joins(&mut self, request: &Request, lead: &mut RequestKind, bytes: u64) -> u64 {
        self.head = self.head.max(Some(request.end()));
        if !request.op().is_write() {
            self.read_to = self.head;
        }
        let before = self.cost(*lead);
        lead.bytes = (u64::from(lead.bytes) + bytes).min(BYTES_MAX) as u32;
        self.cost(*lead) - before
    }

    /// The cost of a request for which the device has to seek, in ns.
    pub(super) fn cost_at_random(&self, request: &Request) -> u64 {
        let is_write = request.op().is_write();
        let bytes = request.service_bytes().get().min(BYTES_MAX) as u32;
        self.cost(RequestKind { bytes, is_write, is_random: true, is_unclear: false })
    }

    /// What a request of this kind costs, in ns.
    pub(super) fn cost(&self, kind: RequestKind) -> u64 {
        let coefficients = &self.coefficients[usize::from(kind.is_write)];
        let slope = (coefficients[SLOPE].cast_unsigned() * u64::from(kind.bytes)) >> 10;
        (coefficients[usize::from(kind.is_random)].cast_unsigned() + slope) >> FRACTION
    }

    /// A request is done; the device was busy for `busy` since the completion before, and holds
    /// `in_flight` more. `is_spoilt`: that time is no cost, as something failed.
    #[inline(always)]
    pub(super) fn done(
        &mut self,
        kind: RequestKind,
        busy: Nanos,
        in_flight: usize,
        is_spoilt: bool,
    ) {
        let counts = &mut self.counts[usize::from(kind.is_write)];
        counts[usize::from(kind.is_random)] += 1;
        counts[SLOPE] += u64::from(kind.bytes);
        self.busy += busy.0;
        self.completions += 1;
        self.is_spoilt |= is_spoilt;
        self.is_unclear |= kind.is_unclear;
        let is_short = !self.has_head && self.busy < INTERVAL.0;
        let is_open = (self.completions as usize) < 2 * in_flight || is_short;
        if in_flight > 0 && is_open {
            return;
        }
        if !self.is_spoilt {
            self.look_and_learn();
        }
        self.counts = [[0; 3]; 2];
        self.busy = 0;
        self.completions = 0;
        (self.is_spoilt, self.is_unclear) = (false, false);
    }

    /// An interval is over. How fast reads were does not depend on what is not clear.
    #[inline(never)]
    fn look_and_learn(&mut self) {
        if self.quick.look(&self.counts, self.busy) {
            if self.said == Some(true) {
                self.presume(if self.quick.is_quick() { &FLASH } else { &HEAD });
            }
            self.judge();
        }
        if !(self.is_unclear && self.has_head) {
            self.learn();
        }
    }

    /// Takes the interval into the sums, weighted by the inverse square of what was expected.
    fn learn(&mut self) {
        let mut x = [0i64; 6];
        for (at, x) in x.iter_mut().enumerate() {
            let count = self.counts[at / 3][at % 3];
            *x = if at % 3 == SLOPE { count.div_ceil(1 << 10) } else { count }.cast_signed();
        }
        let known = |at: usize| i128::from(self.coefficient(at)) * i128::from(x[at]);
        let has_part = |x: i64| x.unsigned_abs() * RARE >= u64::from(self.completions);
        let expected = (0..6).map(known).sum::<i128>() >> FRACTION;
        let bits = expected.max(1).ilog2();
        let shift = 2 * WEIGHT_BITS.saturating_sub(bits);
        let time = i128::from(self.busy) << FRACTION;
        for i in (0..6).filter(|&i| x[i] != 0) {
            for j in 0..6 {
                self.products[i][j] += i128::from(x[i] * x[j]) << shift;
            }
            self.times[i] += (i128::from(x[i]) * time) << shift;
            self.parts[i] += u32::from(has_part(x[i]));
        }
        // What had no part in it is not known from it.
        let bases = x.iter().enumerate().filter(|(at, _)| at % 3 != SLOPE);
        for (at, &x) in bases.filter(|(_, x)| has_part(**x)) {
            let seen = &mut self.seen[at / 3][at % 3];
            *seen = seen.saturating_add(u32::try_from(x).unwrap_or(u32::MAX));
        }
        self.intervals += 1;
        self.unswept += self.completions;
        if self.unswept >= SWEEP_AFTER {
            let sweeps = (self.unswept / SWEEP_AFTER).min(SWEEPS_MAX);
            self.unswept = 0;
            let is_upset = (0..sweeps).any(|_| self.sweep());
            self.age(is_upset);
            self.judge();
        }
    }

    /// Moves each coefficient in turn to where the error is least, the others as they are.
    /// Whether one has doubled or halved.
    fn sweep(&mut self) -> bool {
        let mut is_upset = false;
        for at in [0, 1, 3, 4, 2, 5] {
            let old = self.coefficient(at);
            let product = self.products[at][at];
            let (evidence, (least, most)) = match at % 3 {
                SLOPE => (EVIDENCE_SLOPE, SLOPE_BOUNDS),
                _ => (EVIDENCE_BASE, BASE_BOUNDS),
            };
            if self.parts[at] < evidence || product == 0 {
                continue;
            }
            let others = (0..6).filter(|&j| j != at);
            let known = |j| self.products[at][j] * i128::from(self.coefficient(j));
            let best = (self.times[at] - others.map(known).sum::<i128>()) / product;
            let best = best.clamp(i128::from(least), i128::from(most)) as i64;
            is_upset |= best > 2 * old || best < old / 2;
            self.coefficients[at / 3][at % 3] = best;
            self.learned |= 1 << at;
        }
        is_upset
    }

    /// Drops or halves what is known, if need be.
    fn age(&mut self, is_upset: bool) {
        let bits = match (is_upset, self.intervals >= MEMORY) {
            (true, _) => 127,
            (false, true) => 1,
            (false, false) => return,
        };
        self.products.as_flattened_mut().iter_mut().for_each(|sum| *sum >>= bits);
        self.times.iter_mut().for_each(|sum| *sum >>= bits);
        self.parts.iter_mut().for_each(|parts| *parts = parts.unbounded_shr(bits));
        self.intervals = self.intervals.unbounded_shr(bits);
        self.quick.age(bits);
    }

    /// The coefficient by its number, direction first.
    fn coefficient(&self, at: usize) -> i64 {
        self.coefficients[at / 3][at % 3]
    }

    /// Whether it is known what a random request in this direction costs.
    fn knows_random(&self, direction: usize) -> bool {
        let is_learned = self.learned & 1 << (3 * direction + RANDOM) != 0;
        is_learned && self.seen[direction][RANDOM] >= KNOWN
    }

    /// What a seek costs: how much dearer a random request is than a sequential one. As long as no
    /// sequential one was seen, the start value stands for it.
    pub(super) fn seek(&self) -> Nanos {
        let known = (0..2).filter(|&direction| self.knows_random(direction));
        let seeks = known.map(|direction| {
            let [sequential, random, _] = self.coefficients[direction];
            (random - sequential).max(0).unsigned_abs() >> FRACTION
        });
        match seeks.max() {
            Some(seek) if self.knows_random(0) => Nanos(seek),
            seek if self.said == Some(true) && !self.quick.is_quick() => {
                Nanos(seek.unwrap_or(0)).max(SEEK_PRESUMED)
            }
            seek => Nanos(seek.unwrap_or(0)),
        }
    }

    /// Decides anew whether the device has a head; between half and the whole bound it stays what
    /// it was. Writes are quick where a cache takes them: a head is not given up for that.
    fn judge(&mut self) {
        let least = if self.has_head { SEEK_MIN / 2 } else { SEEK_MIN };
        let may_be = self.said != Some(false) && self.quick.has_seeks();
        self.has_head = may_be && self.seek().0 >= least;
    }

    /// The opinion about the device, for people.
    pub(super) fn view(&self) -> DiskView {
        let is_shown = self.knows_random(0)
            || self.quick.is_quick()
            || (!self.has_head && self.knows_random(1));
        DiskView {
            has_head: (self.said == Some(false) || is_shown).then_some(self.has_head),
            is_learned: self.said != Some(false),
            seek: self.seek(),
        }
    }

    /// Whether the device has a head that must not be sent around without need.
    pub(super) fn has_head(&self) -> bool {
        self.has_head
    }
}
