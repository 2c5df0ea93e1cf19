//! The names that a trace mentions, in a table of bounded size.

use std::collections::BTreeMap;

/// Most streams and most volumes of one trace that are told apart. A stream costs some 3 KiB of
/// counters per run.
pub const STREAMS_MAX: usize = 256;

/// Longest name kept, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// What streams beyond the table are counted under.
pub const OTHERS: &str = "(others)";

/// Names that are compared one after the other.
const SCANNED: usize = 8;

/// One table of names.
#[derive(Debug, Default)]
struct Table {
    names: Vec<String>,
    places: BTreeMap<String, u32>,
}

impl Table {
    /// The place of a name, which is entered if it is new and there is room.
    fn place(&mut self, name: &str) -> Option<u32> {
        // Most traces have few names: it is sooner to look at them than into the tree.
        let is_it = |known: &String| known == name;
        if let Some(place) = self.names.iter().take(SCANNED).position(is_it) {
            return Some(place as u32);
        }
        if let Some(place) = self.places.get(name) {
            return Some(*place);
        }
        if self.names.len() == STREAMS_MAX {
            return None;
        }
        let place = self.names.len() as u32;
        self.names.push(name.into());
        self.places.insert(name.into(), place);
        Some(place)
    }
}

/// Who asked, and on which disks or files.
#[derive(Debug, Default)]
pub struct Names {
    streams: Table,
    volumes: Table,
    /// Processes by number and name: no name is put together for each line.
    processes: Vec<(u64, String, u32)>,
    /// For the names of disks, which are.
    scratch: String,
}

impl Names {
    /// Who asked, in the order of their first requests; all after the first [`STREAMS_MAX`] are one
    /// more, [`OTHERS`], at the end.
    pub fn streams(&self) -> &[String] {
        &self.streams.names
    }

    /// The disks or files, in the order of their first requests.
    pub fn volumes(&self) -> &[String] {
        &self.volumes.names
    }

    /// The number of a stream.
    pub(super) fn stream(&mut self, name: &str) -> u32 {
        self.streams.place(clip(name)).unwrap_or(STREAMS_MAX as u32)
    }

    /// The number of the stream of a process: its name and its number, or the number alone.
    pub(super) fn process(&mut self, name: &str, pid: u64) -> u32 {
        let is_it = |known: &&(u64, String, u32)| known.0 == pid && known.1 == name;
        if let Some((.., stream)) = self.processes.iter().find(is_it) {
            return *stream;
        }
        let stream = match name {
            "" => self.stream(&format!("pid {pid}")),
            name => self.stream(&format!("{name} {pid}")),
        };
        if self.processes.len() < SCANNED {
            self.processes.push((pid, name.into(), stream));
        }
        stream
    }

    /// The numbers of a stream and a volume that are both called HOST.DISK.
    ///
    /// # Errors
    /// As [`Names::volume`].
    pub(super) fn disk(&mut self, host: &str, disk: &str) -> Result<(u32, u32), String> {
        let mut name = std::mem::take(&mut self.scratch);
        name.clear();
        name.extend([host, ".", disk]);
        let numbers = (self.stream(&name), self.volume(&name));
        self.scratch = name;
        Ok((numbers.0, numbers.1?))
    }

    /// The number of a volume.
    ///
    /// # Errors
    /// There are too many: where their offsets lie on one disk would be guesswork.
    pub(super) fn volume(&mut self, name: &str) -> Result<u32, String> {
        self.volumes.place(clip(name)).ok_or_else(|| {
            format!("more than {STREAMS_MAX} disks or files in one trace: replay fewer at once")
        })
    }
}

/// The end of a name, which tells paths apart, in at most [`NAME_BYTES_MAX`] bytes.
fn clip(name: &str) -> &str {
    let mut start = name.len().saturating_sub(NAME_BYTES_MAX);
    while !name.is_char_boundary(start) {
        start += 1;
    }
    &name[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_bounded() {
        let mut names = Names::default();
        for number in 0..10_000 {
            let place = names.stream(&format!("task-{number}"));
            assert_eq!(place as usize, number.min(STREAMS_MAX));
        }
        assert_eq!(names.streams().len(), STREAMS_MAX);
        assert_eq!(names.stream("task-7"), 7);
        let long = "ä".repeat(1_000_000);
        assert!(names.volume(&long).is_ok() && names.volumes()[0].len() <= NAME_BYTES_MAX);
        let refused = (0..STREAMS_MAX).filter(|n| names.volume(&n.to_string()).is_err());
        assert_eq!(refused.collect::<Vec<_>>(), [STREAMS_MAX - 1]);
    }
}
