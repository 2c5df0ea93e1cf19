//! Places on the disk, and the scenario as text.

use super::Mistake;
use super::tasks::{Specs, nanos};
use crate::scenario::DURATION_MAX;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Files begin on pages.
const PAGE: u64 = 4_096;

impl Specs {
    /// Where each file begins.
    fn places(&self, capacity: Bytes) -> Result<BTreeMap<&str, u64>, Mistake> {
        let mut lengths: Vec<(&str, u64, u64)> = Vec::new();
        for spec in &self.specs {
            let end = match spec.size {
                Some(size) => spec.offset.saturating_add(size),
                None => capacity.0 / PAGE * PAGE,
            };
            match lengths.iter_mut().find(|(file, ..)| *file == spec.file) {
                Some((_, length, _)) => *length = (*length).max(end),
                None => lengths.push((&spec.file, end, spec.line)),
            }
        }
        let (mut places, mut next) = (BTreeMap::new(), 0u64);
        for (file, length, line) in lengths {
            places.insert(file, next);
            next = next.saturating_add(length.div_ceil(PAGE).saturating_mul(PAGE));
            if next > capacity.0 {
                let message = format!(
                    "the files of the jobs up to here need {next} bytes, the disk has {}: make \
                     size less, or take a larger --disk",
                    capacity.0
                );
                return Err((line, message));
            }
        }
        Ok(places)
    }

    /// The scenario as text.
    pub(super) fn toml(
        &mut self,
        file: &str,
        disk: &str,
        capacity: Bytes,
    ) -> Result<String, Mistake> {
        let places = self.places(capacity)?;
        let stops = self.specs.iter().map(|spec| spec.stop.filter(|_| self.wave == 0));
        let end = stops.collect::<Option<Vec<Nanos>>>().and_then(|all| all.into_iter().max());
        let end = end.unwrap_or(DURATION_MAX);
        let why = format!("The load of the fio job file {file}.");
        let mut text = format!("why = {}\n", quoted(&why));
        let _ = writeln!(text, "duration = {}\nuntil_done = true", nanos(end));
        if self.ramp > Nanos::ZERO && self.ramp < end {
            let _ = writeln!(text, "warmup = {}", nanos(self.ramp));
        }
        let key = if disk.ends_with(".toml") { "model" } else { "preset" };
        let _ = writeln!(text, "\n[disk]\n{key} = {}", quoted(disk));
        if self.specs.iter().any(|spec| spec.buffered) {
            text.push_str("\n[memory]\n");
        }
        for (path, files) in &self.groups {
            let _ = writeln!(text, "\n[group.{}]", quoted(path));
            for (name, value) in files {
                let _ = writeln!(text, "{} = {}", quoted(name), quoted(value));
            }
        }
        for spec in &self.specs {
            let _ = writeln!(text, "\n[[task]]\nname = {}", quoted(&spec.name));
            for (name, value) in &spec.lines {
                let _ = writeln!(text, "{name} = {value}");
            }
            if let Some(stop) = spec.stop {
                let _ = writeln!(text, "stop = {}", nanos(stop));
            }
            let begin = places[spec.file.as_str()] + spec.offset;
            let size = spec.size.unwrap_or(capacity.0.saturating_sub(begin) / 512 * 512);
            if size == 0 {
                return Err((spec.line, "the offset is beyond the end of the disk".into()));
            }
            let _ = writeln!(text, "offset = \"{begin}B\"\nsize = \"{size}B\"");
            if let Some(group) = &spec.group {
                let _ = writeln!(text, "group = {}", quoted(group));
            }
        }
        Ok(text)
    }
}

/// A text in quotes, escaped: control characters are refused before.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
