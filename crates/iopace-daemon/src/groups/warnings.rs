//! Settings that are legal and will not do what they say: told when they are set, and at the start.

use super::Groups;
use crate::device::Device;
use crate::figures::{shell_word, size};
use iopace_core::group::{Class, Settings, Weight};
use iopace_core::sched;
use std::fmt;

/// A setting that will not do what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The group.
    pub group: String,
    /// The device.
    pub device: String,
    /// What does not hold.
    pub text: String,
    /// The command line that changes that, without `--control`; empty if there is none.
    pub command: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Warning { group, device, text, command } = self;
        write!(f, "{group} on {device}: {text}")?;
        if !command.is_empty() {
            write!(f, ": {command}")?;
        }
        Ok(())
    }
}

/// What a device is like, as far as settings depend on it.
#[derive(Clone, Copy, Debug)]
struct On<'a> {
    device: &'a str,
    scheduler: &'a str,
    /// Whether that was inserted.
    inserted: bool,
    /// What it never gives more than, in bytes per second, if that is known.
    bytes_s_max: Option<u64>,
}

impl<'a> On<'a> {
    fn of(device: &'a dyn Device) -> On<'a> {
        let (info, status) = (device.info(), device.status().engine);
        On {
            device: &info.name,
            scheduler: status.algorithm.name,
            inserted: status.inserted,
            bytes_s_max: info.bytes_s_max,
        }
    }
}

impl Groups {
    /// What of a group's settings will not do what it says, of one file or of all.
    pub fn warnings(&self, path: &str, file: Option<&str>) -> Vec<Warning> {
        let mut all = Vec::new();
        for device in self.devices().iter() {
            let on = On::of(&**device);
            let settings = self.settings_on(on.device, std::iter::once(path));
            for settings in settings.values() {
                let is_asked = |name: &str| file.is_none_or(|file| file == name);
                all.extend(about(path, settings, on, is_asked));
            }
        }
        all
    }

    /// The same of all groups.
    pub fn all_warnings(&self) -> Vec<Warning> {
        self.paths().iter().flat_map(|path| self.warnings(path, None)).collect()
    }

    /// What of the settings on a device its scheduler does not do, each thing once with the groups
    /// that it is so of.
    pub fn unserved_by_scheduler(&self, device: &dyn Device) -> Vec<(Warning, Vec<String>)> {
        // A guarantee above the disk's rate is so with any scheduler.
        let on = On { bytes_s_max: None, ..On::of(device) };
        let paths = self.paths();
        let settings = self.settings_on(on.device, paths.iter().map(String::as_str));
        let mut all: Vec<(Warning, Vec<String>)> = Vec::new();
        for (path, settings) in &settings {
            for warning in about(path, settings, on, |_| true) {
                match all.iter_mut().find(|(one, _)| one.text == warning.text) {
                    Some((_, groups)) => groups.push(warning.group),
                    None => all.push((warning.clone(), vec![warning.group])),
                }
            }
        }
        all
    }

    fn paths(&self) -> Vec<String> {
        let state = self.lock();
        state.tree.iter().map(|id| state.tree.path(id)).collect()
    }
}

fn about(
    group: &str,
    settings: &Settings,
    on: On<'_>,
    is_asked: impl Fn(&str) -> bool,
) -> Vec<Warning> {
    let On { device, scheduler, .. } = on;
    let mut all = Vec::new();
    let mut add = |text: String, command: String| {
        all.push(Warning { group: group.into(), device: device.into(), text, command });
    };
    let divides = sched::divides(scheduler);
    let verb = if on.inserted { "configure" } else { "insert" };
    let insert = || {
        let name = sched::dividing().name;
        format!("iopace sched {verb} -a {name} {}", shell_word(device))
    };
    // The root has nobody beside it.
    let has_siblings = group != "/";
    if is_asked("io.weight") && has_siblings && !divides && settings.weight != Weight::DEFAULT {
        let text = format!(
            "scheduler {scheduler} does not divide the disk by weight, so io.weight counts for \
             slots and dirty memory only"
        );
        add(text, insert());
    }
    if is_asked("io.ioprio_class") && has_siblings && !divides && settings.class != Class::default()
    {
        let text =
            format!("scheduler {scheduler} knows no classes, so io.ioprio_class has no effect");
        add(text, insert());
    }
    let min = settings.min;
    if is_asked("io.min") && min != Default::default() {
        if !divides && has_siblings {
            let text = format!(
                "scheduler {scheduler} puts nobody first at the disk, so io.min counts for slots \
                 only"
            );
            add(text, insert());
        }
        let rates = [("rbps", min.rbps), ("wbps", min.wbps), ("bps", min.bps)];
        for (key, rate) in rates {
            let (Some(rate), Some(most)) = (rate, on.bytes_s_max) else { continue };
            if rate.get() > most {
                let text = format!(
                    "io.min {key}={} is more than the disk gives to all together, {}/s at most",
                    rate.get(),
                    size(most)
                );
                add(text, String::new());
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_core::group::Rates;
    use std::num::NonZeroU64;

    fn told(group: &str, settings: &Settings, scheduler: &str) -> Vec<String> {
        let on = On { device: "disk", scheduler, inserted: false, bytes_s_max: Some(50 << 20) };
        about(group, settings, on, |_| true).iter().map(Warning::to_string).collect()
    }

    #[test]
    fn what_needs_fair_is_told_without_it() {
        let weight = Weight::new(300).expect("legal");
        let min = Rates { riops: NonZeroU64::new(50), ..Rates::default() };
        let all = Settings { weight, class: Class::Idle, min, ..Settings::default() };
        let warned = told("/a", &all, "elevator");
        assert_eq!(warned.len(), 3, "{warned:?}");
        assert!(warned.iter().all(|one| one.starts_with("/a on disk: scheduler elevator ")));
        assert!(warned.iter().all(|one| one.ends_with(": iopace sched insert -a fair disk")));
        assert_eq!(told("/a", &all, "fair"), <[String; 0]>::default());
        assert_eq!(told("/", &all, "elevator"), <[String; 0]>::default());
        assert_eq!(told("/a", &Settings::default(), "elevator"), <[String; 0]>::default());
    }

    #[test]
    fn a_guarantee_above_what_the_disk_gives_is_told() {
        let of = |rbps: u64| {
            let min = Rates { rbps: NonZeroU64::new(rbps), ..Rates::default() };
            told("/a", &Settings { min, ..Settings::default() }, "fair")
        };
        assert!(of(50 << 20).is_empty());
        let warned = of((50 << 20) + 1);
        assert!(warned.len() == 1 && warned[0].contains("50 MiB/s at most"), "{warned:?}");
    }
}
