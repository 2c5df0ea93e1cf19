//! A program in the mounts of running daemons: a group of its own in each daemon that it uses.
//!
//! # Which group
//! The first request of a program is paid by the group that the rules of the mount give, and in it
//! by that of the class of `ionice`. The group `nice-NAME-PID` is made in that one as soon as the
//! program is seen there: limits of the groups above hold for it as before. Whoever it has started
//! by then is moved as well; what it starts from then on follows by itself.
//!
//! The group is one that goes by itself when nobody has paid as it for ten seconds, as when we were
//! killed.

use crate::output::note;
use crate::paths::controls;
use iopace_core::goal::{OthersTimes, Push};
use iopace_core::group::Class;
use iopace_core::time::Nanos;
use iopace_daemon::ProcessFamily;
use iopace_daemon::api::{Move, TimesReport, WriteFile};
use iopace_daemon::control::{Client, ClientError};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The daemons that have mounts, and the program in them.
pub(super) struct Mounts {
    /// A socket that was named.
    control: Option<PathBuf>,
    /// The name of the group in each.
    name: String,
    daemons: BTreeMap<PathBuf, Daemon>,
}

/// A daemon with mounts.
struct Daemon {
    client: Client,
    /// Where they are, with the names of their devices.
    mounts: Vec<(PathBuf, String)>,
    /// The group, once the program was seen there, and what was written to its files.
    group: Option<(String, BTreeMap<&'static str, String>)>,
    moved: BTreeSet<u32>,
    /// It was told that something is refused there.
    is_told: bool,
}

impl Mounts {
    /// Looks for daemons with mounts, for a program of that name.
    pub(super) fn find(control: Option<&Path>, program: &str, pid: u32) -> Mounts {
        let name = format!("nice-{}-{pid}", group_name(program));
        let mut mounts =
            Mounts { control: control.map(Path::to_owned), name, daemons: BTreeMap::new() };
        mounts.look();
        mounts
    }

    /// Looks for daemons again: some come while a program runs.
    pub(super) fn look(&mut self) {
        let paths: BTreeSet<PathBuf> = controls(self.control.as_deref()).into_iter().collect();
        self.daemons.retain(|path, _| paths.contains(path));
        for path in paths {
            let client = Client::new(&path);
            let Ok(mounts) = client.mounts() else { continue };
            let mounts: Vec<(PathBuf, String)> =
                mounts.into_iter().map(|mount| (mount.mountpoint, mount.device)).collect();
            match self.daemons.get_mut(&path) {
                Some(daemon) => {
                    daemon.mounts = mounts;
                    daemon.look();
                }
                None if mounts.is_empty() => {}
                None => {
                    let daemon = Daemon {
                        client,
                        mounts,
                        group: None,
                        moved: BTreeSet::new(),
                        is_told: false,
                    };
                    self.daemons.insert(path, daemon);
                }
            }
        }
    }

    /// Where they are.
    pub(super) fn places(&self) -> Vec<&Path> {
        let mounts = self.daemons.values().flat_map(|daemon| &daemon.mounts);
        mounts.map(|(mountpoint, _)| mountpoint.as_path()).collect()
    }

    /// Has the program's own group pay for it wherever it was seen, and gives that group what the
    /// program has at this moment.
    pub(super) fn follow(&mut self, family: &ProcessFamily, push: &Push) {
        for daemon in self.daemons.values_mut() {
            if let Err(error) = daemon.follow(&self.name, family, push) {
                daemon.tell(&error);
            }
        }
    }

    /// Whether the program has a group anywhere.
    pub(super) fn has_group(&self) -> bool {
        self.daemons.values().any(|daemon| daemon.group.is_some())
    }

    /// How long requests of others in the mounts took in the last second, by task, of those that
    /// did most; `None` if a daemon does not say it.
    pub(super) fn others(&self) -> Option<Vec<OthersTimes>> {
        if self.daemons.is_empty() {
            return None;
        }
        let mut others = Vec::new();
        for daemon in self.daemons.values() {
            let live = daemon.client.live().ok()?;
            let own = daemon.group.as_ref().map(|(group, _)| group.as_str());
            let is_own = |group: &str| {
                let below = own.and_then(|own| group.strip_prefix(own));
                below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let devices = live.devices.iter();
            let devices = devices.filter(|device| daemon.has_device(&device.device));
            for task in devices.flat_map(|device| &device.tasks) {
                if !is_own(&task.group) {
                    others.push(times(&task.activity.latency));
                }
            }
        }
        Some(others)
    }

    /// The program has ended: its groups go.
    pub(super) fn end(self) {
        for daemon in self.daemons.into_values() {
            if let Some((group, _)) = &daemon.group {
                // What it has left running goes on paying: the group goes with the last of it.
                let _ = daemon.client.remove_group(group);
            }
        }
    }

    /// The rest of a program that goes on without us: as it was before, by the rules.
    pub(super) fn forsake(self, family: &ProcessFamily) {
        for daemon in self.daemons.values() {
            let Some((group, _)) = &daemon.group else { continue };
            let (above, _) = group.rsplit_once('/').unwrap_or_default();
            let above = if above.is_empty() { "/" } else { above };
            // Those also that were started in the group and never moved.
            for pid in family.pids() {
                let _ = daemon.client.move_to_group(&to(pid, above));
            }
        }
        self.end();
    }
}

impl Daemon {
    fn has_device(&self, name: &str) -> bool {
        self.mounts.iter().any(|(_, device)| device == name)
    }

    /// A daemon that was started anew, or that has seen nothing of the program for a while, has its
    /// group no more: it is made again when the program is seen.
    fn look(&mut self) {
        if let Some((group, _)) = &self.group
            && self.client.groups(group).is_err_and(|error| is_unknown(&error))
        {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.group = None;
        self.moved.clear();
    }

    fn follow(
        &mut self,
        name: &str,
        family: &ProcessFamily,
        push: &Push,
    ) -> Result<(), ClientError> {
        let pids: BTreeSet<u32> = family.pids().collect();
        if pids.iter().all(|pid| self.moved.contains(pid)) {
            match self.give(push) {
                Err(error) if is_unknown(&error) => self.forget(),
                given => return given,
            }
        }
        let seen = self.client.processes()?.processes;
        let mut seen = seen.into_iter().filter(|process| pids.contains(&process.pid)).peekable();
        if self.group.is_none()
            && let Some(first) = seen.peek()
        {
            let group = format!("{}/{name}", base_of(&first.group).trim_end_matches('/'));
            self.client.create_temporary_group(&group)?;
            self.group = Some((group, BTreeMap::new()));
        }
        self.give(push)?;
        let Some((group, _)) = &self.group else { return Ok(()) };
        // Those that were not seen yet are of the same family.
        for pid in pids {
            if !self.moved.contains(&pid) {
                match self.client.move_to_group(&to(pid, group)) {
                    Ok(_) => self.moved.insert(pid),
                    // It has ended meanwhile.
                    Err(error) if is_unknown(&error) => continue,
                    Err(error) => return Err(error),
                };
            }
        }
        Ok(())
    }

    /// Writes to the files of the group what is not there already.
    fn give(&mut self, push: &Push) -> Result<(), ClientError> {
        let Some((group, written)) = &mut self.group else { return Ok(()) };
        for (file, text) in lines(push) {
            if written.get(file) == Some(&text) || (!written.contains_key(file) && text == NONE) {
                continue;
            }
            let write = WriteFile {
                group: group.clone(),
                file: file.into(),
                text: text.clone(),
                parents: false,
            };
            let result = self.client.write_group(&write);
            // It is not asked for again at each tick if it is refused.
            written.insert(file, text);
            result?;
        }
        Ok(())
    }

    /// Once: the program runs on.
    fn tell(&mut self, error: &ClientError) {
        if !std::mem::replace(&mut self.is_told, true) {
            let places: Vec<String> =
                self.mounts.iter().map(|(at, _)| at.display().to_string()).collect();
            note(format_args!(
                "warning: in {}: {error}; the class of ionice holds there all the same",
                places.join(", ")
            ));
        }
    }
}

/// A rate that a new group has anyway.
const NONE: &str = "default bps=max";

/// What is written for a push: files with their lines.
fn lines(push: &Push) -> [(&'static str, String); 3] {
    let class = if push.class == Class::Idle { "IDLE" } else { "BE" };
    let rate = push.rate.map_or_else(|| NONE.into(), |rate| format!("default bps={}", rate.0));
    [
        ("io.ioprio_class", format!("default {class}")),
        ("io.weight", format!("default {}", push.weight.get())),
        ("io.max", rate),
    ]
}

fn to(pid: u32, group: &str) -> Move {
    Move { export: None, connection: None, pid: Some(pid), group: group.into() }
}

/// The group that the rules have given: without the one that the class of `ionice` made in it, as
/// in `iopace_daemon::fuse::who`.
fn base_of(group: &str) -> &str {
    match group.rsplit_once('/') {
        Some((above, "idle" | "rt")) => above,
        Some((above, name)) if matches!(name.as_bytes(), [b'b', b'e', b'0'..=b'7']) => above,
        _ => group,
    }
}

/// There is no such group, or no such process.
fn is_unknown(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused { status: 404, .. })
}

/// The name of a program as that of a group.
pub(super) fn group_name(program: &str) -> String {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    program.chars().take(32).map(|c| if is_fit(c) { c } else { '_' }).collect()
}

/// The same for the controller.
fn times(latency: &TimesReport) -> OthersTimes {
    let TimesReport { count, p50_ns, p99_ns, max_ns, .. } = *latency;
    OthersTimes { count, p50: Nanos(p50_ns), p99: Nanos(p99_ns), max: Nanos(max_ns) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_core::group::Weight;
    use iopace_core::units::BytesPerSec;

    #[test]
    fn a_group_has_the_lines_of_a_push() {
        let weight = Weight::new(400).expect("legal");
        let push = Push { class: Class::BestEffort, weight, rate: Some(BytesPerSec(7)) };
        let texts = lines(&push).map(|(_, text)| text);
        assert_eq!(texts, ["default BE", "default 400", "default bps=7"]);
        let idle = Push { class: Class::Idle, weight, rate: None };
        assert_eq!(lines(&idle)[2].1, NONE);
    }

    #[test]
    fn names_and_groups_are_made_of_what_there_is() {
        assert_eq!(group_name("a b/c@d\n"), "a_b_c_d_");
        assert_eq!(
            (base_of("/backup/idle"), base_of("/idle"), base_of("/a")),
            ("/backup", "", "/a")
        );
        assert_eq!(
            (base_of("/a/rt"), base_of("/a/be7"), base_of("/a/be8")),
            ("/a", "/a", "/a/be8")
        );
    }
}
