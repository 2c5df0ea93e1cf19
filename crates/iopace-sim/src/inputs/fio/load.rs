//! What a job asks for, how deep, and how often.

use super::Mistake;
use super::options::{ASYNC_ENGINES, SYNC_ENGINES};
use super::tasks::{Given, Specs, nanos};
use super::values::{count, size, switch, time};
use crate::scenario::TASK_DEPTH_MAX;
use iopace_core::time::Nanos;

impl Specs {
    /// What a request is; its size and the depth asked for.
    pub(super) fn requests(
        &mut self,
        given: &Given<'_>,
        lines: &mut Vec<(&'static str, String)>,
    ) -> Result<(u64, u64), Mistake> {
        let (rw, line) = given.word("rw").unwrap_or(("read", 0));
        let (rw, modifier) = rw.split_once(':').map_or((rw, ""), |(rw, rest)| (rw, rest));
        if !modifier.is_empty() {
            self.unknown(given, "rw", "the number of requests before an offset changes");
        }
        let read = given.get("rwmixread", |text| count(text, 0, 100))?;
        let write = given.get("rwmixwrite", |text| count(text, 0, 100))?;
        let mixed = write.or(read.map(|read| 100 - read)).unwrap_or(50);
        let (kind, percent, trims) = match rw {
            "read" => ("sequential", 0, false),
            "write" => ("sequential", 100, false),
            "rw" | "readwrite" => ("sequential", mixed, false),
            "trim" => ("sequential", 100, true),
            "randread" => ("random", 0, false),
            "randwrite" => ("random", 100, false),
            "randrw" => ("random", mixed, false),
            "randtrim" => ("random", 100, true),
            other => {
                let message = format!(
                    "rw is read, write, rw, trim, randread, randwrite, randrw or randtrim, not \
                     '{other}'"
                );
                return Err((line, message));
            }
        };
        lines.push(("kind", format!("\"{kind}\"")));
        if percent > 0 {
            lines.push(("write_percent", percent.to_string()));
        }
        if trims {
            lines.push(("trim", "true".into()));
        }
        let block = self.block(given, percent)?;
        lines.push(("block", format!("\"{block}B\"")));
        let flushes = |name| given.get(name, |text| count(text, 0, u64::from(u32::MAX)));
        let every = flushes("fsync")?.filter(|every| *every > 0);
        let every = every.or(flushes("fdatasync")?.filter(|every| *every > 0));
        if let (Some(every), 1..) = (every, percent) {
            lines.push(("flush_every", every.to_string()));
        }
        match given.word("sync") {
            None | Some(("0" | "none", _)) => {}
            Some(("" | "1" | "sync" | "dsync", _)) if percent == 0 || trims => {}
            Some(("" | "1" | "sync" | "dsync", _)) => lines.push(("fua", "true".into())),
            Some((other, line)) => {
                return Err((line, format!("sync is none, sync or dsync, not '{other}'")));
            }
        }
        let depth = given.get("iodepth", |text| count(text, 1, u64::from(TASK_DEPTH_MAX)))?;
        Ok((block, depth.unwrap_or(1)))
    }

    /// The size of a request, for reads or for writes.
    fn block(&mut self, given: &Given<'_>, write_percent: u64) -> Result<u64, Mistake> {
        let Some((text, line)) = given.word("bs") else { return Ok(4_096) };
        let fail = |message: String| (line, format!("bs: {message}"));
        let mut sizes = Vec::new();
        for part in text.split(',') {
            let last = sizes.last().copied().unwrap_or(4_096);
            sizes.push(match part {
                "" => last,
                part => size(part, given.base).map_err(fail)?,
            });
        }
        if write_percent > 0 && write_percent < 100 && sizes.iter().any(|one| *one != sizes[0]) {
            self.unknown(given, "bs", "reads and writes of one job have one size, that of reads");
        }
        let block = sizes[usize::from(write_percent == 100).min(sizes.len() - 1)];
        if block == 0 || !block.is_multiple_of(512) || block > 32 << 20 {
            return Err(fail(format!("{block} B: a block is a multiple of 512 B, at most 32 MiB")));
        }
        Ok(block)
    }

    /// Whether a job goes through the page cache.
    pub(super) fn direct(&mut self, given: &Given<'_>) -> Result<bool, Mistake> {
        let direct = given.switch("direct")?;
        let buffered = given.get("buffered", switch)?;
        let is_buffered = buffered.unwrap_or(!direct);
        let note = "jobs without direct=1 go through a modelled page cache of 1 GiB";
        if is_buffered && !self.notes.iter().any(|said| said == note) {
            self.notes.push(note.into());
        }
        Ok(is_buffered)
    }

    /// The depth that an engine really keeps.
    pub(super) fn depth(
        &mut self,
        given: &Given<'_>,
        depth: u64,
        buffered: bool,
    ) -> Result<u64, Mistake> {
        let engine = given.word("ioengine").map_or("psync", |(engine, _)| engine);
        if SYNC_ENGINES.contains(&engine) {
            return Ok(1);
        }
        if !ASYNC_ENGINES.contains(&engine) {
            self.unknown(given, "ioengine", "taken for one that keeps iodepth outstanding");
        }
        // fio's HOWTO on iodepth: buffered I/O of libaio is not asynchronous on Linux.
        if engine == "libaio" && buffered {
            return Ok(1);
        }
        Ok(depth)
    }

    /// Think time and rates; the depth that they leave.
    pub(super) fn pauses(
        &mut self,
        given: &Given<'_>,
        depth: u64,
        lines: &mut Vec<(&'static str, String)>,
    ) -> Result<u64, Mistake> {
        let think = given.get("thinktime", |text| time(text, Nanos::from_micros(1)))?;
        let think = think.filter(|think| think.0 > 0);
        let blocks = given.get("thinktime_blocks", |text| count(text, 1, u64::from(u32::MAX)))?;
        let rates = |name| match given.word(name) {
            Some((text, _)) if text.contains(',') => Ok(None),
            _ => given.size(name).map(|rate| rate.filter(|rate| *rate > 0)),
        };
        for name in ["rate", "rate_iops"] {
            if given.word(name).is_some_and(|(text, _)| text.contains(',')) {
                self.unknown(given, name, "one rate for reads and writes together is understood");
            }
        }
        let rate = match (rates("rate_iops")?, rates("rate")?) {
            (Some(iops), bytes) => {
                if bytes.is_some() {
                    self.unknown(given, "rate", "rate_iops is there, and one of them can hold");
                }
                Some(format!("\"{iops}/s\""))
            }
            (None, Some(bytes)) => Some(format!("\"{bytes}B/s\"")),
            (None, None) => None,
        };
        match given.word("rate_process") {
            None | Some(("linear", _)) => {}
            Some(("poisson", _)) if rate.is_some() => lines.push(("arrival", "\"poisson\"".into())),
            Some(_) => self.unknown(given, "rate_process", "it is linear, or poisson with a rate"),
        }
        if let Some(rate) = rate {
            if think.is_some() {
                self.unknown(given, "thinktime", "beside a rate it is left out");
            }
            lines.push(("rate", rate));
            lines.push(("ceiling", "true".into()));
            return Ok(depth);
        }
        let Some(think) = think else { return Ok(depth) };
        lines.push(("think", nanos(think)));
        let blocks = blocks.unwrap_or(1);
        if blocks > 1 {
            lines.push(("think_every", blocks.to_string()));
        }
        Ok(depth.min(blocks))
    }
}
