//! A group on a device of a running daemon: what it was promised, how it is reached, and whether it
//! may be.

use super::load::Connection;
use super::outcome::Waits;
use super::promise::Rates;
use crate::output::{Failure, note};
use crate::units::shell_word;
use iopace_daemon::api::{DeviceReport, SOURCE_CLUSTER, WriteFile};
use iopace_daemon::control::Client;
use std::path::PathBuf;

/// How requests get to the device.
#[derive(Clone, Debug)]
pub enum Way {
    /// Over NBD: the socket, the export that is read, and the one that may be written.
    Nbd {
        /// Where the daemon listens.
        socket: PathBuf,
        /// What is read.
        export: String,
        /// What may be written over.
        scratch: Option<String>,
    },
    /// Through a mount: a scratch file in it.
    Mount(PathBuf),
}

/// What is looked at.
#[derive(Debug)]
pub struct Target {
    /// The daemon.
    pub client: Client,
    /// The group.
    pub group: String,
    /// The device as it stood at the beginning.
    pub device: DeviceReport,
    /// How it is reached.
    pub way: Way,
}

/// Another group beside the one that is looked at; removed when this goes.
#[derive(Debug)]
pub struct Sibling<'a> {
    target: &'a Target,
    /// Its path.
    pub group: String,
}

impl Target {
    /// What holds for a file of a group on the device, and whether that was set.
    ///
    /// # Errors
    /// No answer.
    pub fn value(&self, group: &str, file: &str) -> Result<(String, bool), Failure> {
        let name = &self.device.name;
        let files = self.client.group_files(group, Some(file), Some(name)).map_err(failed)?;
        let all = files.into_iter().flat_map(|file| file.effective);
        let one = all.into_iter().find(|one| one.device == *name && one.source != SOURCE_CLUSTER);
        let one = one.ok_or_else(|| {
            failed(format!("{file} of {group}: the daemon says nothing of {name}"))
        })?;
        Ok((one.value, one.source != "built in"))
    }

    /// `io.max` of the group and of all above it, it first.
    ///
    /// # Errors
    /// No answer, or one that is not understood.
    pub fn limits(&self) -> Result<Vec<(String, Rates)>, Failure> {
        let mut chain = Vec::new();
        let mut group = Some(self.group.clone());
        while let Some(name) = group {
            let (value, _) = self.value(&name, "io.max")?;
            group = parent(&name);
            let rates = Rates::parse(&value).map_err(failed)?;
            chain.push((name, Rates { buffered: self.is_buffered(), ..rates }));
        }
        Ok(chain)
    }

    /// Whether what is written goes into the page cache first. In a mount we write around it.
    fn is_buffered(&self) -> bool {
        matches!(self.way, Way::Nbd { .. }) && self.device.pace.is_some()
    }

    /// Where the time of the group's requests has gone so far.
    ///
    /// # Errors
    /// No answer.
    pub fn waits(&self, group: &str) -> Result<Waits, Failure> {
        let report = self.client.group_stat(group).map_err(failed)?;
        let of_group = report.groups.into_iter().find(|stat| stat.group == group);
        let devices = of_group.into_iter().flat_map(|stat| stat.devices);
        let stages = devices.into_iter().find(|stat| stat.device == self.device.name);
        let stages = stages.map(|stat| stat.stages).unwrap_or_default();
        Ok(Waits {
            held_ns: stages.pace_ns + stages.admit_ns,
            queued_ns: stages.sched_ns + stages.window_ns,
            disk_ns: stages.disk_ns,
        })
    }

    /// A connection that pays as a group.
    ///
    /// # Errors
    /// It cannot be opened; or writes were asked for and nothing may be written.
    pub fn connect(&self, group: &str, writes: bool) -> Result<Connection, Failure> {
        let Way::Nbd { socket, export, scratch } = &self.way else {
            return Err(failed("a mount has no connections"));
        };
        let export = match (writes, scratch) {
            (true, Some(scratch)) => scratch,
            (true, None) => return Err(failed("nothing may be written")),
            (false, _) => export,
        };
        let name = format!("{export}@{group}");
        Connection::open(socket, &name).map_err(|error| {
            failed(format!("{name} at {}: cannot be opened: {error}", socket.display()))
        })
    }

    /// Whether something may be written.
    pub fn may_write(&self) -> bool {
        match &self.way {
            Way::Nbd { scratch, .. } => scratch.is_some(),
            Way::Mount(_) => true,
        }
    }

    /// Why writes are not tested, and what tests them.
    pub fn no_scratch(&self) -> String {
        let export = match &self.way {
            Way::Nbd { export, .. } => shell_word(export),
            Way::Mount(_) => "EXPORT".into(),
        };
        format!(
            "nothing is written unless you say where: with '--scratch {export}' it is tested, and \
             what is in {export} is written over"
        )
    }

    /// Makes a group beside it, with a weight.
    ///
    /// # Errors
    /// The daemon refused it.
    pub fn sibling(&self, weight: Option<u32>) -> Result<Sibling<'_>, Failure> {
        let above = parent(&self.group).ok_or_else(|| failed("the root has no siblings"))?;
        let above = above.trim_end_matches('/');
        let group = format!("{above}/iopace-verify-{}", std::process::id());
        // If we are killed, it goes all the same.
        self.client.create_temporary_group(&group).map_err(failed)?;
        let sibling = Sibling { target: self, group: group.clone() };
        if let Some(weight) = weight {
            let text = format!("{} {weight}", self.device.name);
            let write = WriteFile { group, file: "io.weight".into(), text, parents: false };
            self.client.write_group(&write).map_err(failed)?;
        }
        Ok(sibling)
    }
}

impl Drop for Sibling<'_> {
    /// Its connections have just gone; the daemon hears of that in a moment.
    fn drop(&mut self) {
        for _ in 0..100 {
            if self.target.client.remove_group(&self.group).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let group = &self.group;
        note(format_args!("warning: {group} is left: 'iopace group remove {group}' removes it"));
    }
}

/// The group above.
fn parent(group: &str) -> Option<String> {
    let (above, name) = group.rsplit_once('/')?;
    (!name.is_empty()).then(|| if above.is_empty() { "/".to_owned() } else { above.to_owned() })
}

/// It could not be tested.
pub fn failed(message: impl std::fmt::Display) -> Failure {
    Failure { message: message.to_string(), status: super::UNTESTED }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_one_above_it() {
        let parents = ["/a/b", "/a", "/"].map(parent);
        assert_eq!(parents, [Some("/a".into()), Some("/".into()), None]);
    }
}
