//! Jobs become tasks of a scenario.

use super::Mistake;
use super::ini::{Options, Section};
use super::options::{NO_EFFECT, UNDERSTOOD};
use super::values::{SuffixBase, count, size, switch, time};
use crate::scenario::{DURATION_MAX, TASKS_MAX};
use iopace_core::time::Nanos;
use iopace_groups::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// One job, or one of its clones, before its file has a place.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) name: String,
    pub(super) line: u64,
    pub(super) file: String,
    pub(super) offset: u64,
    /// `None`: to the end of the disk.
    pub(super) size: Option<u64>,
    /// Lines of its table that do not depend on its place.
    pub(super) lines: Vec<(&'static str, String)>,
    pub(super) stop: Option<Nanos>,
    pub(super) group: Option<String>,
    pub(super) buffered: bool,
}

/// All jobs, and what is said about them.
#[derive(Debug, Default)]
pub(super) struct Specs {
    pub(super) specs: Vec<Spec>,
    pub(super) groups: BTreeMap<String, BTreeMap<&'static str, String>>,
    pub(super) wave: u32,
    pub(super) ramp: Nanos,
    pub(super) notes: Vec<String>,
    pub(super) unknown: Vec<String>,
    said: BTreeSet<(u64, String)>,
}

/// The options of one job, read one by one.
pub(super) struct Given<'a> {
    pub(super) options: &'a Options,
    pub(super) base: SuffixBase,
}

impl Given<'_> {
    /// An option's value through a reader, if it is there.
    pub(super) fn get<T>(
        &self,
        name: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Mistake> {
        let Some((value, line)) = self.options.get(name) else { return Ok(None) };
        read(value).map(Some).map_err(|message| (*line, format!("{name}: {message}")))
    }

    pub(super) fn size(&self, name: &str) -> Result<Option<u64>, Mistake> {
        self.get(name, |text| size(text, self.base))
    }

    pub(super) fn seconds(&self, name: &str) -> Result<Option<Nanos>, Mistake> {
        self.get(name, |text| time(text, Nanos::from_secs(1)))
    }

    pub(super) fn switch(&self, name: &str) -> Result<bool, Mistake> {
        self.get(name, switch).map(|value| value.unwrap_or(false))
    }

    pub(super) fn word(&self, name: &str) -> Option<(&str, u64)> {
        self.options.get(name).map(|(value, line)| (value.as_str(), *line))
    }

    pub(super) fn line(&self, name: &str) -> u64 {
        self.options.get(name).map_or(0, |(_, line)| *line)
    }
}

impl Specs {
    /// Names an option that is not understood, once for each place.
    pub(super) fn unknown(&mut self, given: &Given<'_>, name: &str, why: &str) {
        let Some((value, line)) = given.options.get(name) else { return };
        if self.said.insert((*line, name.into())) {
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            self.unknown.push(format!("line {line}: {name}={value}{why}"));
        }
    }

    /// Adds a job and its clones.
    pub(super) fn add(&mut self, section: &Section) -> Result<(), Mistake> {
        let options = &section.options;
        let base = match options.get("kb_base").map(|(value, line)| (value.as_str(), *line)) {
            None | Some(("1024", _)) => SuffixBase(1_024),
            Some(("1000", _)) => SuffixBase(1_000),
            Some((other, line)) => {
                return Err((line, format!("kb_base is 1000 or 1024, not '{other}'")));
            }
        };
        let given = &Given { options, base };
        for name in options.keys() {
            if !UNDERSTOOD.contains(&name.as_str()) && !NO_EFFECT.contains(&name.as_str()) {
                self.unknown(given, name, "");
            }
        }
        if given.switch("stonewall")? && !self.specs.is_empty() {
            self.wave += 1;
        }
        let mut lines = Vec::new();
        let (block, depth) = self.requests(given, &mut lines)?;
        let buffered = self.direct(given)? && !lines.contains(&("trim", "true".into()));
        let depth = self.depth(given, depth, buffered)?;
        let depth = self.pauses(given, depth, &mut lines)?;
        lines.push(("depth", depth.to_string()));
        let (start, stop) = self.times(given)?;
        lines.push(("start", nanos(start)));
        let length = given.size("size")?;
        if length.is_none() && given.word("filename").is_none() {
            let message = "no size and no filename: add size=, as size=1g";
            return Err((section.line, format!("job '{}' has {message}", section.name)));
        }
        if length.is_some_and(|length| length < block) {
            let message = format!("the size is less than a block of {block} B");
            return Err((given.line("size"), message));
        }
        if let Some(total) = self.total(given, block, length, stop)? {
            lines.push(("total", format!("\"{total}B\"")));
        }
        if self.wave > 0 {
            lines.push(("wave", self.wave.to_string()));
        }
        if buffered {
            lines.push(("buffered", "true".into()));
        }
        let (file, name) = (String::new(), String::new());
        let (line, offset) = (section.line, given.size("offset")?.unwrap_or(0));
        let size = length.map(|length| length / block * block);
        let group = self.group(given, &section.name)?;
        let spec = Spec { name, line, file, offset, size, lines, stop, group, buffered };
        self.clones(given, &section.name, &spec)
    }

    /// Adds a job as often as it is wanted.
    fn clones(&mut self, given: &Given<'_>, job: &str, spec: &Spec) -> Result<(), Mistake> {
        let line = spec.line;
        let clones = given.get("numjobs", |text| count(text, 1, TASKS_MAX as u64))?.unwrap_or(1);
        let step = given.size("offset_increment")?.unwrap_or(0);
        for clone in 0..clones {
            if self.specs.len() == TASKS_MAX {
                return Err((line, format!("more than {TASKS_MAX} jobs with their clones")));
            }
            let name = self.name(job, clone, clones);
            let file = match given.word("filename") {
                Some((file, _)) => format!("file {file}"),
                None => format!("job {name}"),
            };
            let offset = step.checked_mul(clone).and_then(|step| step.checked_add(spec.offset));
            let offset = offset.ok_or((line, "the offset is beyond 2^64".to_owned()))?;
            let offset = offset / 512 * 512;
            self.specs.push(Spec { name, file, offset, ..spec.clone() });
        }
        Ok(())
    }

    /// A name that no other task has.
    fn name(&self, job: &str, clone: u64, clones: u64) -> String {
        let job = match clones {
            1 => job.to_owned(),
            _ => format!("{job}-{}", clone + 1),
        };
        let is_free = |name: &str| self.specs.iter().all(|spec| spec.name != name);
        let numbered = (2..).map(|number| format!("{job}#{number}"));
        let mut names = std::iter::once(job.clone()).chain(numbered);
        names.find(|name| is_free(name)).expect("numbers do not end")
    }

    /// When a job begins and stops.
    fn times(&mut self, given: &Given<'_>) -> Result<(Nanos, Option<Nanos>), Mistake> {
        let start = match given.word("startdelay") {
            Some((text, line)) if text.contains('-') => {
                self.unknown(given, "startdelay", "of a range, the beginning is taken");
                let first = text.split('-').next().unwrap_or_default();
                let first = time(first, Nanos::from_secs(1));
                first.map_err(|message| (line, format!("startdelay: {message}")))?
            }
            _ => given.seconds("startdelay")?.unwrap_or(Nanos::ZERO),
        };
        let runtime = given.seconds("runtime")?.filter(|runtime| runtime.0 > 0);
        let ramp = given.seconds("ramp_time")?.unwrap_or(Nanos::ZERO);
        if ramp.0 > 0 && self.wave > 0 {
            self.unknown(given, "ramp_time", "behind a stonewall all of the run counts");
        } else {
            self.ramp = self.ramp.max(ramp + start);
            if ramp == Nanos::ZERO {
                self.ramp = self.ramp.saturating_sub(start);
            }
        }
        let stop = runtime.map(|runtime| start + ramp + runtime);
        match stop.unwrap_or(start) {
            time if time > DURATION_MAX => {
                let line = given.line("runtime").max(given.line("startdelay"));
                Err((line, "a job ends within a day: make runtime or startdelay less".into()))
            }
            _ => Ok((start, stop)),
        }
    }

    /// What a job moves before it ends.
    fn total(
        &mut self,
        given: &Given<'_>,
        block: u64,
        length: Option<u64>,
        stop: Option<Nanos>,
    ) -> Result<Option<u64>, Mistake> {
        if given.switch("time_based")? {
            return match stop {
                Some(_) => Ok(None),
                None => {
                    Err((given.line("time_based"), "it needs a runtime: add runtime=30".into()))
                }
            };
        }
        let loops = given.get("loops", |text| count(text, 1, 1 << 32))?.unwrap_or(1);
        let length = given.size("io_size")?.or(length);
        let total = length.map(|length| (length / block * block).saturating_mul(loops));
        let ios = given.get("number_ios", |text| count(text, 1, 1 << 48))?;
        let ios = ios.map(|ios| ios.saturating_mul(block));
        let total = total.into_iter().chain(ios).min();
        match total {
            Some(0) => {
                let line = given.line("io_size").max(given.line("size"));
                Err((line, format!("the size is less than a block of {block} B")))
            }
            None if stop.is_none() => {
                let line = given.line("filename");
                Err((line, "the job never ends: add size=, io_size= or runtime=".into()))
            }
            total => Ok(total),
        }
    }

    /// The group of a job, with its weight and class.
    fn group(&mut self, given: &Given<'_>, job: &str) -> Result<Option<String>, Mistake> {
        let weight = given.get("cgroup_weight", |text| count(text, 1, 10_000))?;
        let class = match given.get("prioclass", |text| count(text, 0, 3))? {
            Some(1) => Some("RT"),
            Some(2) => Some("BE"),
            Some(3) => Some("IDLE"),
            _ => None,
        };
        let name = given.word("cgroup").map(|(name, _)| name);
        if name.is_none() && weight.is_some() {
            self.unknown(given, "cgroup_weight", "without cgroup");
        }
        let Some(name) = name.or(class.map(|_| job)) else { return Ok(None) };
        let path: String = name.split('/').filter(|part| !part.is_empty()).map(plain).collect();
        if path.is_empty() {
            return Ok(None);
        }
        let line = given.line("cgroup").max(given.line("prioclass"));
        Tree::new().create_all(&path).map_err(|error| (line, error.to_string()))?;
        let files = self.groups.entry(path.clone()).or_default();
        if let Some(weight) = weight {
            files.insert("io.weight", weight.to_string());
        }
        if let Some(class) = class {
            files.insert("io.ioprio_class", class.into());
        }
        Ok(Some(path))
    }
}

/// A part of the path of a group, with letters that may stand in a name.
fn plain(part: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let is_dots = part == "." || part == "..";
    let letter = |c: char| if is_plain(c) && !is_dots { c } else { '_' };
    std::iter::once('/').chain(part.chars().map(letter)).collect()
}

/// A time in the largest unit that keeps it whole.
pub(super) fn nanos(time: Nanos) -> String {
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    let unit = units.iter().find(|(_, unit)| time.0.is_multiple_of(*unit));
    let (name, unit) = unit.unwrap_or(&("ns", 1));
    format!("\"{}{name}\"", time.0 / unit)
}
