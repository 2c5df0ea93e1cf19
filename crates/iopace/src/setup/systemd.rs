//! systemd: names of units, and the few commands that it is given.

use crate::output::Failure;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The service manager of the machine, if it is to be spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Systemd {
    /// Whether it runs here.
    pub(super) runs: bool,
}

/// Whether the machine was booted with systemd, see sd_booted(3).
pub(super) fn runs() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// A path as the instance of a unit, as `systemd-escape --path` has it.
pub(super) fn escaped(path: &Path) -> String {
    let parts = path.iter().filter(|part| *part != OsStr::new("/"));
    let joined: Vec<&[u8]> = parts.map(OsStrExt::as_bytes).collect();
    let joined = joined.join(&b'/');
    if joined.is_empty() {
        return "-".into();
    }
    let mut name = String::new();
    for (at, byte) in joined.into_iter().enumerate() {
        match byte {
            b'/' => name.push('-'),
            b'.' if at == 0 => name.push_str("\\x2e"),
            b':' | b'_' | b'.' => name.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => name.push(char::from(byte)),
            byte => drop(write!(name, "\\x{byte:02x}")),
        }
    }
    name
}

/// The service of a directory.
pub(super) fn unit_of(path: &Path) -> String {
    format!("iopace-mount@{}.service", escaped(path))
}

impl Systemd {
    /// Has it read its units anew, where it runs.
    pub(super) fn reload(self) -> Result<(), Failure> {
        if self.runs { call(&["daemon-reload"]) } else { Ok(()) }
    }

    /// Starts a unit, and waits until it is up.
    pub(super) fn start(self, unit: &str) -> Result<(), Failure> {
        call(&["start", unit]).map_err(|failure| {
            failure.but(&format!("its log: journalctl -u {}", crate::units::shell_word(unit)))
        })
    }

    /// Stops a unit, and waits until it is down.
    pub(super) fn stop(self, unit: &str) -> Result<(), Failure> {
        call(&["stop", unit])
    }

    /// Whether a unit is up, or on its way.
    pub(super) fn is_up(self, unit: &str) -> bool {
        let mut command = Command::new("systemctl");
        command.args(["is-active", unit]).stdin(Stdio::null()).stderr(Stdio::null());
        let said = command.output().map(|output| output.stdout).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        self.runs && ["active", "activating", "reloading", "deactivating"].contains(&&*said)
    }
}

fn call(words: &[&str]) -> Result<(), Failure> {
    let shown = format!("systemctl {}", words.join(" "));
    let output = Command::new("systemctl").args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| Failure::new(format!("{shown}: {error}")))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(Failure::new(format!("{shown} failed: {}", said.trim())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_escaped_as_systemd_does() {
        let cases = [
            ("/", "-"),
            ("/srv/data", "srv-data"),
            ("/srv//my-data/", r"srv-my\x2ddata"),
            ("/.hidden/a.b", r"\x2ehidden-a.b"),
            ("/srv/a b%c", r"srv-a\x20b\x25c"),
            ("/srv/é\n", r"srv-\xc3\xa9\x0a"),
        ];
        for (path, name) in cases {
            assert_eq!(escaped(Path::new(path)), name, "{path}");
            let told = Command::new("systemd-escape").args(["--path", path]).output();
            let told = told.ok().filter(|told| told.status.success()).map(|told| told.stdout);
            if let Some(told) = told {
                assert_eq!(
                    String::from_utf8_lossy(&told).trim_end(),
                    name,
                    "systemd-escape {path}"
                );
            }
        }
        assert_eq!(unit_of(Path::new("/srv")), "iopace-mount@srv.service");
    }
}
