//! What a group was promised on a device, read from what holds there, and which request would show
//! each of it.

use super::load::Direction;
use crate::units::parse_time;
use iopace_core::limits::WRITE_BACK_LEN;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Duration;

/// Blocks that are tried, smallest first.
pub const BLOCKS: [u32; 12] = {
    let mut blocks = [512; 12];
    let mut at = 1;
    while at < blocks.len() {
        blocks[at] = blocks[at - 1] * 2;
        at += 1;
    }
    blocks
};

/// A limit of bytes is driven with so many requests per second, if their size allows it: enough for
/// windows of 100 ms, and few enough that the processor is not what is measured.
const REQUESTS_PER_S: u64 = 200;

/// The block of a limit of requests.
const SMALL: u32 = 4096;

/// A rate, as in `io.max` and `io.min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Bytes read.
    Rbps,
    /// Bytes written.
    Wbps,
    /// Bytes.
    Bps,
    /// Reads.
    Riops,
    /// Writes.
    Wiops,
    /// Requests.
    Iops,
}

impl Key {
    /// All of them.
    pub const ALL: [Key; 6] = [Key::Rbps, Key::Wbps, Key::Bps, Key::Riops, Key::Wiops, Key::Iops];

    /// Its name in the files.
    pub fn name(self) -> &'static str {
        ["rbps", "wbps", "bps", "riops", "wiops", "iops"][self as usize]
    }

    /// Whether it counts bytes.
    pub fn is_bytes(self) -> bool {
        matches!(self, Key::Rbps | Key::Wbps | Key::Bps)
    }

    /// What has to be done for it.
    pub fn direction(self) -> Direction {
        match self {
            Key::Rbps | Key::Riops => Direction::Read,
            Key::Wbps | Key::Wiops => Direction::Write,
            Key::Bps | Key::Iops => Direction::Both,
        }
    }

    /// Which part of the requests of a load it counts.
    fn counts(self, direction: Direction) -> f64 {
        match (self.direction(), direction) {
            (Direction::Both, _) => 1.0,
            (own, other) if own == other => 1.0,
            (_, Direction::Both) => 0.5,
            _ => 0.0,
        }
    }
}

/// `io.max` or `io.min` of a group on a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    /// What is set, per second.
    pub rates: BTreeMap<Key, u64>,
    /// The longest time that a burst may last at its rate.
    pub burst: Duration,
    /// Bytes that count as one request; 0: any number.
    pub iops_size: u64,
    /// Whether writes go into the page cache: there one counts as the requests of its write-back.
    pub buffered: bool,
}

impl Rates {
    /// Reads what stands behind the device: `rbps=10485760 wiops=120`, `max` or `0`.
    ///
    /// # Errors
    /// A word that we do not know: the daemon is of another version.
    pub fn parse(value: &str) -> Result<Rates, String> {
        let mut rates = Rates::default();
        let mut burst_length = Duration::from_secs(1);
        for word in value.split_whitespace().filter(|word| !["max", "0"].contains(word)) {
            let unknown = || format!("'{word}' in '{value}' is not known");
            let (key, number) = word.split_once('=').ok_or_else(unknown)?;
            if number == "max" {
                continue;
            }
            if key == "burst-length" {
                let length = parse_time(number).map_err(|_| unknown())?;
                burst_length = Duration::from_nanos(length.0);
                continue;
            }
            let number = number.parse::<u64>().map_err(|_| unknown())?;
            if key == "iops-size" {
                rates.iops_size = number;
                continue;
            }
            let (name, is_burst) =
                key.strip_suffix("-burst").map_or((key, false), |key| (key, true));
            let key = Key::ALL.into_iter().find(|key| key.name() == name).ok_or_else(unknown)?;
            if is_burst {
                rates.burst = burst_length;
            } else if number > 0 {
                rates.rates.insert(key, number);
            }
        }
        if !rates.burst.is_zero() {
            rates.burst = burst_length;
        }
        Ok(rates)
    }

    /// Requests per second of a load that one of the rates lets through, and which.
    pub fn ceiling(&self, direction: Direction, block: u32) -> Option<(f64, Key)> {
        let one = |(key, rate): (&Key, &u64)| {
            let part = key.counts(direction);
            let each = match key.is_bytes() {
                true => f64::from(block) * part,
                false => self.operations(*key, direction, block),
            };
            (part > 0.0).then(|| (*rate as f64 / each, *key))
        };
        self.rates.iter().filter_map(one).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// What a request of a load counts at a limit of requests, the mean of reads and writes.
    pub fn operations(&self, key: Key, direction: Direction, block: u32) -> f64 {
        let of = |size: u64| u64::from(block).div_ceil(size) as f64;
        let size = NonZeroU64::new(self.iops_size).map_or(u64::MAX, NonZeroU64::get);
        let read = of(size);
        let write = if self.buffered { of(size.min(WRITE_BACK_LEN.get())) } else { read };
        let (read, write) = match key.direction() {
            Direction::Read => (read, 0.0),
            Direction::Write => (0.0, write),
            Direction::Both => (read, write),
        };
        match direction {
            Direction::Read => read,
            Direction::Write => write,
            Direction::Both => f64::midpoint(read, write),
        }
    }
}

/// Whether a limit of so many requests per second decides before a weight does: it is used up, or
/// is less than the part by weight of what all had.
pub fn decides_before(limit: f64, own: f64, due: f64) -> bool {
    own > limit * 0.97 || limit < due
}

/// How a rate is to be driven, or what is reached before it.
#[derive(Clone, Debug, PartialEq)]
pub enum Drive {
    /// With this block it is what binds, at so many requests per second.
    Block(u32, f64),
    /// At every block something else binds first.
    Behind(String),
}

/// The block with which a limit of the group is what its requests meet. `chain` is the group and
/// those above it, each with its name.
pub fn block_for(key: Key, chain: &[(String, Rates)], blocks: &[u32]) -> Drive {
    let (_, own) = &chain[0];
    let rate = own.rates.get(&key).copied().unwrap_or(u64::MAX);
    let wanted = if key.is_bytes() { rate / REQUESTS_PER_S } else { u64::from(SMALL) };
    let distance = |block: &u32| {
        let (block, wanted) = (u64::from(*block).ilog2(), wanted.max(512).ilog2());
        block.abs_diff(wanted)
    };
    let mut tried: Vec<u32> = blocks.to_vec();
    tried.sort_by_key(distance);
    let mut behind = String::new();
    for block in tried {
        let direction = key.direction();
        let Some((own_rate, own_key)) = own.ceiling(direction, block) else { continue };
        let above = chain[1..].iter().filter_map(|(name, rates)| {
            rates
                .ceiling(direction, block)
                .map(|(rate, key)| (rate, format!("{} of {name}", key.name())))
        });
        let above = above.min_by(|a, b| a.0.total_cmp(&b.0));
        match above {
            Some((rate, what)) if rate < own_rate => behind = what,
            _ if own_key == key => return Drive::Block(block, own_rate),
            _ => behind = own_key.name().to_owned(),
        }
    }
    Drive::Behind(behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(text: &str) -> Rates {
        Rates::parse(text).expect("as the daemon prints it")
    }

    fn chain(texts: &[&str]) -> Vec<(String, Rates)> {
        texts.iter().enumerate().map(|(at, text)| (format!("/{at}"), rates(text))).collect()
    }

    #[test]
    fn a_limit_decides_before_a_weight_that_it_cannot_reach() {
        assert!(decides_before(160.0, 156.0, 100.0), "used up");
        assert!(decides_before(160.0, 150.0, 8_000.0), "below its part, though not all used");
        assert!(!decides_before(1_000.0, 300.0, 400.0));
    }

    #[test]
    fn what_holds_is_read_as_the_daemon_prints_it() {
        assert_eq!(rates("max"), Rates::default());
        assert_eq!(rates("0"), Rates::default());
        let both = rates("rbps=1048576 riops=max wiops=120 rbps-burst=2097152 burst-length=3s");
        let set: Vec<(Key, u64)> = both.rates.into_iter().collect();
        assert_eq!(set, [(Key::Rbps, 1 << 20), (Key::Wiops, 120)]);
        assert_eq!((both.burst, both.iops_size), (Duration::from_secs(3), 0));
        assert_eq!(rates("iops=10 burst-length=3s iops-size=4096").burst, Duration::ZERO);
        for text in ["rbps", "rbps=fast", "speed=1"] {
            assert!(Rates::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_limit_is_driven_with_the_block_that_shows_it() {
        let block = |key, texts: &[&str]| block_for(key, &chain(texts), &BLOCKS);
        assert_eq!(block(Key::Rbps, &["rbps=10485760"]), Drive::Block(32768, 320.0));
        assert_eq!(block(Key::Rbps, &["rbps=10240"]), Drive::Block(512, 20.0));
        assert_eq!(block(Key::Riops, &["riops=120"]), Drive::Block(4096, 120.0));
        // 1 MiB/s is reached first with 32 KiB; with 8 KiB and less the requests are.
        let both = ["rbps=1048576 riops=100"];
        assert_eq!(block(Key::Rbps, &both), Drive::Block(16384, 64.0));
        assert_eq!(block(Key::Riops, &both), Drive::Block(4096, 100.0));
        assert_eq!(block(Key::Wbps, &["wbps=1048576", "bps=1048576"]), Drive::Block(4096, 256.0));
    }

    #[test]
    fn what_is_reached_before_a_limit_is_named() {
        let block = |key, texts: &[&str]| block_for(key, &chain(texts), &BLOCKS);
        let own = block(Key::Bps, &["bps=2097152 iops=1"]);
        assert_eq!(own, Drive::Behind("iops".into()));
        let above = block(Key::Rbps, &["rbps=2097152", "", "riops=1"]);
        assert_eq!(above, Drive::Behind("riops of /2".into()));
    }

    #[test]
    fn a_request_counts_once_for_every_so_many_bytes() {
        let rates = rates("iops=100 iops-size=4096");
        assert_eq!(rates.ceiling(Direction::Read, 4096), Some((100.0, Key::Iops)));
        assert_eq!(rates.ceiling(Direction::Read, 65536), Some((6.25, Key::Iops)));
        let reads = Rates::parse("riops=100").expect("legal");
        assert_eq!(reads.ceiling(Direction::Write, 512), None);
        assert_eq!(reads.ceiling(Direction::Both, 512), Some((200.0, Key::Riops)));
    }

    #[test]
    fn a_write_into_memory_counts_as_its_write_back() {
        let of = |text, key, direction, block| {
            let buffered = Rates { buffered: true, ..rates(text) };
            let direct = rates(text).operations(key, direction, block);
            (buffered.operations(key, direction, block), direct)
        };
        let mib = 1 << 20;
        assert_eq!(of("wiops=1000", Key::Wiops, Direction::Write, mib), (8.0, 1.0));
        assert_eq!(of("wiops=1000", Key::Wiops, Direction::Write, 128 << 10), (1.0, 1.0));
        assert_eq!(of("riops=1000", Key::Riops, Direction::Read, mib), (1.0, 1.0));
        assert_eq!(of("iops=1000", Key::Iops, Direction::Both, mib), (4.5, 1.0));
        let smaller = "wiops=1000 iops-size=65536";
        assert_eq!(of(smaller, Key::Wiops, Direction::Write, mib), (16.0, 16.0));
        let larger = "iops=1000 iops-size=524288";
        assert_eq!(of(larger, Key::Iops, Direction::Both, mib), (5.0, 2.0));
        let buffered = Rates { buffered: true, ..rates("wiops=1000") };
        assert_eq!(buffered.ceiling(Direction::Write, mib), Some((125.0, Key::Wiops)));
    }
}
