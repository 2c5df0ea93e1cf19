//! What earlier runs of a program moved, and how fast at best.
//!
//! One file for each user, `iopace/nice.json` in `$XDG_STATE_HOME` (or `~/.local/state`), root's in
//! `/var/lib`. A program is known by its name and a number that its arguments give: these may hold
//! passwords and are not kept. The file is exchanged as a whole; of two programs that end at the
//! same moment one may be forgotten.

use iopace_core::units::{Bytes, BytesPerSec};
use iopace_daemon::runtime_files::{Distrust, RuntimeDir};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Its name.
const FILE: &str = "nice.json";

/// Most programs that are kept, the latest: arguments may differ every time.
const PROGRAMS_MAX: usize = 256;

/// Longest file that is read: a program takes some hundred bytes.
const BYTES_MAX: u64 = 256 << 10;

/// Runs of a program that count.
const RUNS_MAX: usize = 5;

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Run {
    /// What it moved.
    pub(super) bytes: u64,
    /// Its highest rate of a window.
    pub(super) best_bytes_s: u64,
}

/// A program, and the seconds since 1970 of its last run.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Known {
    last_s: u64,
    runs: Vec<Run>,
}

/// What is known of a program.
pub(super) struct Learnt {
    dir: Option<PathBuf>,
    key: String,
    runs: Vec<Run>,
}

impl Learnt {
    /// What is known of the program with these arguments.
    pub(super) fn of(words: &[OsString]) -> Learnt {
        Learnt::in_dir(directory(), words)
    }

    fn in_dir(dir: Option<PathBuf>, words: &[OsString]) -> Learnt {
        let key = key(words);
        let mut all = dir.as_deref().and_then(read).unwrap_or_default();
        let runs = all.remove(&key).map(|known| known.runs).unwrap_or_default();
        Learnt { dir, key, runs }
    }

    /// What it will move: as much as in the largest of the last runs, as a deadline is rather
    /// planned for too much.
    pub(super) fn expected(&self) -> Option<Bytes> {
        self.runs.iter().map(|run| Bytes(run.bytes)).max()
    }

    /// How fast it was at best in the last run.
    pub(super) fn best(&self) -> BytesPerSec {
        self.runs.last().map_or(BytesPerSec(0), |run| BytesPerSec(run.best_bytes_s))
    }

    /// Keeps a run that came to its end at that time, in seconds since 1970.
    ///
    /// # Errors
    /// It cannot be written: then it is not known the next time.
    pub(super) fn keep(self, run: Run, now_s: u64) -> io::Result<()> {
        let Some(dir) = self.dir else { return Ok(()) };
        let place = make(&dir).map_err(Distrust::into_io)?;
        let mut all = read(&dir).unwrap_or_default();
        let mut runs = self.runs;
        runs.push(run);
        runs.drain(..runs.len().saturating_sub(RUNS_MAX));
        all.insert(self.key, Known { last_s: now_s, runs });
        while all.len() > PROGRAMS_MAX {
            let oldest = all.iter().min_by_key(|(_, known)| known.last_s);
            let oldest = oldest.map(|(key, _)| key.clone()).expect("more than none");
            all.remove(&oldest);
        }
        let text = serde_json::to_vec_pretty(&all).map_err(io::Error::other)?;
        place.replace(OsStr::new(FILE), &text)
    }
}

/// A directory, made with those above it that are missing; each is made in one that is trusted.
fn make(dir: &Path) -> Result<RuntimeDir, Distrust> {
    match (RuntimeDir::make(dir), dir.parent()) {
        (Err(error), Some(above)) if error.is_missing() => {
            make(above)?;
            RuntimeDir::make(dir)
        }
        (made, _) => made,
    }
}

fn read(dir: &Path) -> Option<BTreeMap<String, Known>> {
    let dir = RuntimeDir::open(dir).ok()?;
    let (_, text) = dir.read(OsStr::new(FILE), BYTES_MAX).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The directory of this user.
fn directory() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    if let Some(dir) = named("XDG_STATE_HOME") {
        return Some(dir.join("iopace"));
    }
    match geteuid().is_root() {
        true => Some("/var/lib/iopace".into()),
        false => named("HOME").map(|home| home.join(".local/state/iopace")),
    }
}

/// The name of a program with a number of its arguments (FNV-1a, 64 bits).
fn key(words: &[OsString]) -> String {
    let name = Path::new(&words[0]).file_name().unwrap_or(&words[0]).to_string_lossy().into_owned();
    let bytes = words[1..].iter().flat_map(|word| word.as_bytes().iter().copied().chain([0]));
    let number = bytes.fold(0xcbf2_9ce4_8422_2325, |number: u64, byte| {
        (number ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{name} {number:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_last_runs_of_a_program_are_known() {
        let parent = tempfile::tempdir().expect("a directory");
        let dir = parent.path().join("state/iopace");
        let learnt = |text: &str| Learnt::in_dir(Some(dir.clone()), &words(text));
        assert_eq!(learnt("tar cf x").expected(), None);
        for bytes in 1..=7 {
            let run = Run { bytes: 100 - bytes, best_bytes_s: bytes };
            learnt("tar cf x").keep(run, bytes).expect("kept");
        }
        let known = learnt("/bin/tar cf x");
        assert_eq!(known.expected(), Some(Bytes(97)), "the largest of the last five");
        assert_eq!(known.best(), BytesPerSec(7));
        assert_eq!(learnt("tar cf y").expected(), None);
        let text = std::fs::read_to_string(dir.join(FILE)).expect("read");
        assert!(text.contains("\"tar ") && !text.contains("cf"), "{text}");
        for number in 0..300 {
            let run = Run { bytes: 1, best_bytes_s: 1 };
            learnt(&format!("tar {number}")).keep(run, 100 + number).expect("kept");
        }
        assert_eq!(learnt("tar cf x").expected(), None, "the oldest");
        assert_eq!(learnt("tar 299").expected(), Some(Bytes(1)));
        std::fs::write(dir.join(FILE), "{").expect("written");
        assert_eq!(learnt("tar 299").expected(), None, "what is broken is not known");
        // Nothing is made in a directory that others can write to.
        let open = parent.path().join("open");
        std::fs::create_dir(&open).expect("made");
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&open, all).expect("open");
        let below = Learnt::in_dir(Some(open.join("state/iopace")), &words("tar"));
        assert!(below.keep(Run { bytes: 1, best_bytes_s: 1 }, 1).is_err());
        assert!(!open.join("state").exists());
    }
}
