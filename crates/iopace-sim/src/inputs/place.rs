//! Puts the requests of a trace onto a disk: where, how large, and when.
//!
//! # Where
//! Volumes lie beside each other, in the order in which the trace mentions them. When they reach
//! over less than the disk, every offset stays as it is within its volume. When they do not fit:
//! - *wrap*: what is beyond the end goes on at the beginning. Neighbours stay neighbours; places
//!   that were far apart may meet.
//! - *scale*: offsets are scaled down to the disk. Order and proportions of seeks stay; requests
//!   that followed each other overlap.
//! - *refuse*: a mistake.
//!
//! # How large
//! Requests are rounded out to sectors of [`SECTOR`] bytes. Reads and writes longer than
//! [`PIECE_MAX`] become several, at the same time; so does a request that crosses the end of the
//! disk.
//!
//! # When
//! The first request of the trace is time zero; times are divided by the speed.

use super::survey::Survey;
use super::{InputError, Record};
use core::fmt;
use iopace_core::request::{Extent, Op};
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use std::collections::VecDeque;

/// The disk models' smallest unit.
pub const SECTOR: u64 = 512;

/// Longest read or write: the largest that a network block device carries.
pub const PIECE_MAX: Bytes = Bytes::from_mib(32);

/// What becomes of offsets that are beyond the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// They go on at the beginning.
    #[default]
    Wrap,
    /// All offsets are scaled down.
    Scale,
    /// They are a mistake.
    Refuse,
}

/// How fast a trace is replayed, in thousandths of its own speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed(u64);

impl Default for Speed {
    fn default() -> Speed {
        Speed(1_000)
    }
}

impl Speed {
    /// Reads `2`, `0.5` or `12.125`: up to three decimals, from 0.001 to 1 000 000.
    pub fn parse(text: &str) -> Option<Speed> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !is_digits(whole) || !is_digits(part) || part.len() > 3 {
            return None;
        }
        let part = part.parse::<u64>().ok()? * 10u64.pow(3 - part.len() as u32);
        let thousandths = whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(part)?;
        (1..=1_000_000_000).contains(&thousandths).then_some(Speed(thousandths))
    }

    /// A time of the trace as it is in the replay; never beyond 2^64 ns.
    pub fn scale(self, time: Nanos) -> Nanos {
        let scaled = u128::from(time.0) * 1_000 / u128::from(self.0);
        Nanos(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 1_000, self.0 % 1_000) {
            (whole, 0) => write!(f, "{whole}"),
            (whole, part) => {
                write!(f, "{whole}.{}", format!("{part:03}").trim_end_matches('0'))
            }
        }
    }
}

/// One request on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// When it is due, from the beginning of the replay.
    pub at: Nanos,
    /// What.
    pub op: Op,
    /// Where.
    pub extent: Extent,
    /// Durable before it is finished.
    pub fua: bool,
    /// Who asked.
    pub stream: u32,
}

/// How offsets and times of one trace become those of a replay.
#[derive(Clone, Debug)]
pub struct Placing {
    /// Where each volume begins, before it is made to fit.
    bases: Vec<u128>,
    span: u128,
    capacity: u64,
    fit: Fit,
    first: Nanos,
    speed: Speed,
}

impl Placing {
    /// Places what `survey` found on a disk of `capacity` bytes.
    ///
    /// # Errors
    /// It does not fit, and is not to be made to.
    pub fn new(
        survey: &Survey,
        capacity: Bytes,
        fit: Fit,
        speed: Speed,
    ) -> Result<Placing, String> {
        let mut bases = Vec::with_capacity(survey.ends.len());
        let mut span = 0u128;
        for end in &survey.ends {
            bases.push(span);
            span += u128::from(end.0.next_multiple_of(4_096));
        }
        let capacity = capacity.0 / SECTOR * SECTOR;
        let placing = Placing { bases, span, capacity, fit, first: survey.first, speed };
        if fit == Fit::Refuse && !placing.fits() {
            return Err(format!(
                "it reaches over {span} bytes, the disk has {capacity}: take a larger --disk, or \
                 --fit wrap or --fit scale"
            ));
        }
        Ok(placing)
    }

    /// Whether every offset stays as it is within its volume.
    pub fn fits(&self) -> bool {
        self.span <= u128::from(self.capacity)
    }

    /// Puts the pieces of a request at the end of `pieces`.
    ///
    /// # Errors
    /// The request is longer than the disk.
    fn place(&self, record: &Record, pieces: &mut VecDeque<Piece>) -> Result<(), String> {
        let &Record { at, op, offset, len, fua, stream, .. } = record;
        let at = self.speed.scale(at.saturating_sub(self.first));
        if op == Op::Flush {
            pieces.push_back(Piece { at, op, extent: Extent::EMPTY, fua, stream });
            return Ok(());
        }
        // `check` keeps the end 4 KiB below 2^64.
        let begin = offset.0 / SECTOR * SECTOR;
        let mut left = (offset.0 + len.0).next_multiple_of(SECTOR) - begin;
        if left > self.capacity {
            return Err(format!("a request of {left} bytes, the disk has {}", self.capacity));
        }
        let base = self.bases.get(record.volume as usize).copied().unwrap_or(0);
        let offset = base + u128::from(begin);
        let capacity = u128::from(self.capacity);
        let mut offset = match self.fit {
            _ if self.fits() => offset,
            Fit::Wrap | Fit::Refuse => offset % capacity,
            Fit::Scale => {
                let sectors = offset / u128::from(SECTOR) * (capacity / u128::from(SECTOR));
                let scaled = sectors / self.span.div_ceil(u128::from(SECTOR)) * u128::from(SECTOR);
                scaled.min(capacity - u128::from(left))
            }
        } as u64;
        while left > 0 {
            let room = self.capacity.saturating_sub(offset);
            if room == 0 {
                offset = 0;
                continue;
            }
            let most = if op == Op::Trim { room } else { room.min(PIECE_MAX.0) };
            let len = left.min(most);
            let extent = Extent::new(Bytes(offset), Bytes(len)).expect("within the disk");
            pieces.push_back(Piece { at, op, extent, fua, stream });
            (offset, left) = (offset + len, left - len);
        }
        Ok(())
    }
}

/// Is told how many requests of a trace have been read.
pub type Tick<'a> = &'a (dyn Fn(u64) + Sync);

/// Every so many requests the tick is called.
pub const TICK_REQUESTS: u64 = 1 << 12;

/// A trace as it goes to the disk.
pub struct Placed<'a> {
    trace: super::order::Ordered<'a>,
    placing: Placing,
    tick: Tick<'a>,
    read_count: u64,
    /// What is left of a request.
    pieces: VecDeque<Piece>,
}

impl<'a> Placed<'a> {
    /// Places an ordered trace; `tick` is told every [`TICK_REQUESTS`] how far that has come.
    pub fn new(trace: super::order::Ordered<'a>, placing: Placing, tick: Tick<'a>) -> Placed<'a> {
        Placed { trace, placing, tick, read_count: 0, pieces: VecDeque::new() }
    }
}

impl Iterator for Placed<'_> {
    type Item = Result<Piece, InputError>;

    fn next(&mut self) -> Option<Result<Piece, InputError>> {
        if let Some(piece) = self.pieces.pop_front() {
            return Some(Ok(piece));
        }
        let record = match self.trace.next()? {
            Ok(record) => record,
            Err(error) => return Some(Err(error)),
        };
        self.read_count += 1;
        if self.read_count.is_multiple_of(TICK_REQUESTS) {
            (self.tick)(self.read_count);
        }
        if let Err(message) = self.placing.place(&record, &mut self.pieces) {
            let place = self.trace.place(&record);
            return Some(Err(self.trace.trace().error(place, message)));
        }
        self.pieces.pop_front().map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(ends: &[u64]) -> Survey {
        let ends = ends.iter().map(|end| Bytes(*end)).collect();
        Survey { ends, first: Nanos(1_000), ..Survey::default() }
    }

    fn pieces(placing: &Placing, offset: u64, len: u64, volume: u32) -> Vec<(u64, u64)> {
        let record = Record {
            at: Nanos(3_000),
            op: Op::Write,
            offset: Bytes(offset),
            len: Bytes(len),
            fua: false,
            stream: 0,
            volume,
            took: None,
            place: 1,
        };
        let mut pieces = VecDeque::new();
        placing.place(&record, &mut pieces).expect("placed");
        pieces.iter().map(|piece| (piece.extent.offset().0, piece.extent.len().0)).collect()
    }

    #[test]
    fn what_fits_stays_where_it_is_beside_each_other() {
        let placing =
            Placing::new(&survey(&[5_000, 4_096]), Bytes(1 << 20), Fit::Refuse, Speed::default());
        let placing = placing.expect("fits");
        assert_eq!(pieces(&placing, 512, 512, 0), [(512, 512)]);
        assert_eq!(pieces(&placing, 513, 512, 0), [(512, 1_024)], "rounded out to sectors");
        assert_eq!(pieces(&placing, 0, 4_096, 1), [(8_192, 4_096)], "behind the first volume");
    }

    #[test]
    fn wrapping_goes_on_at_the_beginning() {
        let survey = survey(&[1 << 40]);
        let placing = Placing::new(&survey, Bytes(1 << 20), Fit::Wrap, Speed::default());
        let placing = placing.expect("wraps");
        assert_eq!(pieces(&placing, (5 << 20) + 512, 512, 0), [(512, 512)]);
        assert_eq!(pieces(&placing, (1 << 20) - 512, 1_024, 0), [((1 << 20) - 512, 512), (0, 512)]);
        assert!(Placing::new(&survey, Bytes(1 << 20), Fit::Refuse, Speed::default()).is_err());
    }

    #[test]
    fn scaling_keeps_the_order_and_stays_on_the_disk() {
        let span = 1u64 << 50;
        let placing = Placing::new(&survey(&[span]), Bytes(1 << 30), Fit::Scale, Speed::default());
        let placing = placing.expect("scales");
        assert_eq!(pieces(&placing, span / 2, 512, 0), [(1 << 29, 512)]);
        let mut last = 0;
        for step in 0..1_000 {
            let got = pieces(&placing, span / 1_000 * step, 65_536, 0);
            assert!(got[0].0 >= last && got[0].0 + got[0].1 <= 1 << 30, "{got:?}");
            last = got[0].0;
        }
        assert_eq!(pieces(&placing, span - 65_536, 65_536, 0), [((1 << 30) - 65_536, 65_536)]);
    }

    #[test]
    fn long_requests_become_several() {
        let placing =
            Placing::new(&survey(&[1 << 30]), Bytes(1 << 30), Fit::Refuse, Speed::default());
        let got = pieces(&placing.expect("fits"), 512, (64 << 20) + 512, 0);
        assert_eq!(got.len(), 3);
        assert_eq!(got.iter().map(|piece| piece.1).sum::<u64>(), (64 << 20) + 512);
        assert!(got.windows(2).all(|two| two[0].0 + two[0].1 == two[1].0));
    }

    #[test]
    fn speed_is_a_decimal_number() {
        for (text, shown, scaled) in [("2", "2", 500), ("0.5", "0.5", 2_000), ("1.25", "1.25", 800)]
        {
            let speed = Speed::parse(text).expect("a speed");
            assert_eq!((speed.to_string().as_str(), speed.scale(Nanos(1_000)).0), (shown, scaled));
        }
        assert_eq!(Speed::parse("0.001").expect("slow").scale(Nanos(u64::MAX)), Nanos(u64::MAX));
        for text in ["", "0", "-1", "1e3", ".5", "1.", "0.0001", "10000000", "99999999999999999999"]
        {
            assert_eq!(Speed::parse(text), None, "{text}");
        }
    }
}
