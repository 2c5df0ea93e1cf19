//! All promises of a group; limits, and the load that shows them.

use super::busy::Busy;
use super::load::{Direction, Work};
use super::outcome::{Outcome, Unit, judge_limit};
use super::promise::{BLOCKS, Drive, Key, Rates, block_for};
use super::scratch;
use super::tally::{Tally, Times};
use super::target::{Target, Way, failed};
use super::{Options, Verify};
use crate::output::Failure;
use crate::units;
use std::time::Duration;

/// The start that does not count: queues fill, a closed limit has opened.
pub(super) const SETTLE: Duration = Duration::from_millis(500);

impl Verify<'_> {
    /// All that a group was promised on a device.
    ///
    /// # Errors
    /// The daemon does not answer, a request failed, or a signal came.
    pub fn group(&self, target: &Target) -> Result<Vec<Outcome>, Failure> {
        let mut outcomes = Vec::new();
        let chain = target.limits()?;
        for key in chain[0].1.rates.keys() {
            for block in self.blocks(target, *key)? {
                outcomes.push(self.limit(target, *key, &chain, block)?);
            }
        }
        let place = (&*target.group, &*target.device.name);
        let (weight, is_set) = target.value(&target.group, "io.weight")?;
        if is_set {
            outcomes.push(self.weight(target, place, &weight, &chain)?);
        }
        let (min, _) = target.value(&target.group, "io.min")?;
        let min = Rates::parse(&min).map_err(failed)?;
        for (key, rate) in &min.rates {
            outcomes.push(self.guarantee(target, *key, *rate)?);
        }
        let (class, is_set) = target.value(&target.group, "io.ioprio_class")?;
        if is_set {
            outcomes.extend(self.class(target, place, &class)?);
        }
        let (latency, _) = target.value(&target.group, "io.latency")?;
        let target_text = latency.strip_prefix("target=").filter(|text| *text != "0");
        if let Some(text) = target_text {
            outcomes.push(self.latency(target, place, text)?);
        }
        Ok(outcomes)
    }

    /// The blocks that were asked for, or none: one is chosen.
    fn blocks(&self, target: &Target, key: Key) -> Result<Vec<Option<u32>>, Failure> {
        if self.options.blocks.is_empty() {
            return Ok(vec![None]);
        }
        let writes = key.direction() != Direction::Read;
        let least = match &target.way {
            Way::Nbd { .. } if writes && !target.may_write() => 1,
            Way::Nbd { .. } => target.connect(&target.group, writes)?.block_min,
            Way::Mount(_) => scratch::BLOCK_MIN,
        };
        let all = self.options.blocks.iter().filter(|block| **block >= least);
        let all: Vec<Option<u32>> = all.map(|block| Some(*block)).collect();
        if all.is_empty() {
            return Err(failed(format!(
                "{} takes requests of {least} bytes and more: name a larger --block-size",
                target.device.name
            )));
        }
        Ok(all)
    }

    /// A rate of `io.max`.
    fn limit(
        &self,
        target: &Target,
        key: Key,
        chain: &[(String, Rates)],
        block: Option<u32>,
    ) -> Result<Outcome, Failure> {
        let (asked, place) =
            (chain[0].1.rates[&key] as f64, (&*target.group, &*target.device.name));
        let unit = if key.is_bytes() { Unit::BytesPerS } else { Unit::RequestsPerS };
        let mut outcome = Outcome::new(place, key.name(), (asked, unit));
        outcome.tolerance_percent = self.options.tolerance;
        let direction = key.direction();
        if direction != Direction::Read && !target.may_write() {
            return Ok(outcome.not_tested(target.no_scratch()));
        }
        let least = match &target.way {
            Way::Nbd { .. } => {
                target.connect(&target.group, direction != Direction::Read)?.block_min
            }
            Way::Mount(_) => scratch::BLOCK_MIN,
        };
        let usable: Vec<u32> = match block {
            Some(block) => vec![block],
            None => BLOCKS.into_iter().filter(|block| *block >= least).collect(),
        };
        let (block, per_s) = match block_for(key, chain, &usable) {
            Drive::Block(block, per_s) => (block, per_s),
            Drive::Behind(other) => {
                return Ok(outcome.not_tested(format!("{other} is reached before it")));
            }
        };
        // 100 ms of it: a limit closes for as long as a request costs, and somebody has to wait.
        let most = if let Way::Mount(_) = target.way { scratch::THREADS_MAX } else { 64 };
        let depth = ((per_s / 10.0).ceil() as usize).clamp(2, most);
        let work = Work { direction, block, depth, is_random: false, seed: 0, side: None };
        outcome.load = describe(&work);
        let what = format!("{} of {}, {}", key.name(), target.group, outcome.load);
        // A burst has to be used up first.
        let times = Times::from_now(SETTLE + chain[0].1.burst * 2, self.options.time);
        let before = target.waits(&target.group)?;
        let busy = Busy::begin();
        let tally = self.drive(target, &what, &work, times)?;
        let busy = busy.end();
        let waits = target.waits(&target.group)?.since(before);
        outcome.seen(&tally, times.steady());
        let one = match key.is_bytes() {
            true => f64::from(block),
            false => chain[0].1.operations(key, direction, block),
        };
        Ok(judge_limit(outcome, &tally, (waits, busy), one))
    }

    /// Does that as the group.
    pub(super) fn drive(
        &self,
        target: &Target,
        what: &str,
        work: &Work,
        times: Times,
    ) -> Result<Tally, Failure> {
        self.watched(what, times, || match &target.way {
            Way::Nbd { .. } => {
                let connection =
                    target.connect(&target.group, work.direction != Direction::Read)?;
                connection.drive(work, times, self.stop).map_err(failed)
            }
            Way::Mount(path) => scratch::drive(path, work, times, self.stop),
        })
    }
}

/// `reads of 4 KiB, 16 at once`.
pub(super) fn describe(work: &Work) -> String {
    let what = match work.direction {
        Direction::Read => "reads",
        Direction::Write => "writes",
        Direction::Both => "reads and writes",
    };
    let order = if work.is_random { "random " } else { "" };
    format!("{order}{what} of {}, {} at once", units::size(u64::from(work.block)), work.depth)
}

/// What a user may ask for, checked.
impl Options {
    /// Whether a block can be driven.
    pub fn is_block(block: u64) -> bool {
        BLOCKS.iter().any(|known| u64::from(*known) == block)
    }
}
