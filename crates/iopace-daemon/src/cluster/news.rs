//! What has happened between a host, the store and the other hosts of a volume, in words.

use super::member::StoreContact;
use super::records::VolumeRecord;
use super::store::StoreError;
use super::view::VolumeView;
use crate::config::HOSTS_DEFAULT;
use crate::figures::{shell_word, time};
use std::collections::{BTreeMap, BTreeSet};

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClusterNote {
    pub(super) text: String,
    /// Whether somebody should look at it.
    pub(super) is_warning: bool,
}

/// What was told, so that each thing is told once.
#[derive(Debug)]
pub(super) struct VolumeNews {
    /// The host's own name.
    host: String,
    /// What its configuration says of the volume.
    wanted: VolumeRecord,
    /// What is wrong at present.
    wrong: Option<String>,
    /// The volume as it was seen when news were told last; none before the first time.
    before: Option<Before>,
    is_difference_told: bool,
}

#[derive(Debug)]
struct Before {
    hosts: BTreeSet<String>,
    places: BTreeSet<String>,
    set: BTreeMap<(String, String), String>,
}

impl VolumeNews {
    /// Of a host that has told nothing yet.
    pub(super) fn new(host: &str, wanted: VolumeRecord) -> VolumeNews {
        let host = host.to_owned();
        VolumeNews { host, wanted, wrong: None, before: None, is_difference_told: false }
    }

    /// What has happened since the last time. `blind` is the device if its window policy knows of
    /// no other hosts.
    pub(super) fn after(
        &mut self,
        view: &VolumeView,
        (standing, slot): (&StoreContact, Option<u32>),
        blind: Option<&str>,
    ) -> Vec<ClusterNote> {
        let mut notes = Vec::new();
        notes.extend(self.trouble(wrong(view, (standing, slot), blind)));
        if *standing != StoreContact::Joined {
            return notes;
        }
        if let Some(record) = view.volume.filter(|_| !self.is_difference_told) {
            self.is_difference_told = true;
            notes.extend(difference(self.wanted, record).map(warning));
        }
        let now = Before {
            hosts: view.hosts.keys().cloned().collect(),
            places: view.slots.values().cloned().collect(),
            set: view.set.clone(),
        };
        if let Some(before) = &self.before {
            notes.extend(changes(before, &now, &self.host).into_iter().map(info));
        }
        self.before = Some(now);
        notes
    }

    /// What is wrong now, if that is something else than before, or that it is over.
    fn trouble(&mut self, now: Option<(&'static str, String)>) -> Option<ClusterNote> {
        // Its words may change with each try.
        let kind = now.as_ref().map(|(kind, _)| (*kind).to_owned());
        let before = std::mem::replace(&mut self.wrong, kind);
        match now {
            Some((_, text)) if before != self.wrong => Some(warning(text)),
            None if before.is_some() => Some(info("all is well again".into())),
            _ => None,
        }
    }
}

fn warning(text: String) -> ClusterNote {
    ClusterNote { text, is_warning: true }
}

fn info(text: String) -> ClusterNote {
    ClusterNote { text, is_warning: false }
}

/// What is wrong, with a word for its kind.
fn wrong(
    view: &VolumeView,
    (standing, slot): (&StoreContact, Option<u32>),
    blind: Option<&str>,
) -> Option<(&'static str, String)> {
    let is_full = view.volume.is_some_and(|all| view.slots.len() >= all.hosts_max as usize);
    match standing {
        StoreContact::Dark(error @ StoreError::Unreachable(_), _) => Some(("dark", error.told())),
        StoreContact::Dark(error, _) => Some(("refused", error.told())),
        StoreContact::Joined if slot.is_none() && is_full => Some((
            "full",
            format!(
                "all {} places are taken: in the dark this host has nothing of any limit; \
                 'iopace cluster forget HOST' frees one",
                view.slots.len()
            ),
        )),
        StoreContact::Joined if !view.strange.is_empty() => Some((
            "strange",
            format!(
                "in the store is what no host of this version writes: {}",
                view.strange.join(", ")
            ),
        )),
        StoreContact::Joined => blind.map(|device| ("window", blind_window(device))),
    }
}

fn blind_window(device: &str) -> String {
    format!(
        "the window policy of {device} knows of no other hosts, so weights do not hold for all \
         hosts together: 'iopace window configure -a latency {}'; in the configuration, leave \
         `window-policy` out",
        shell_word(device)
    )
}

/// In words, what the configuration of this host says otherwise than the volume has it.
fn difference(wanted: VolumeRecord, record: VolumeRecord) -> Option<String> {
    let target = |record: VolumeRecord| match record.target_ns {
        Some(target) => format!("a target of {}", time(target)),
        None => "no target".to_owned(),
    };
    let mut parts = Vec::new();
    // A host that says nothing has the default.
    if ![HOSTS_DEFAULT, record.hosts_max].contains(&wanted.hosts_max) {
        parts
            .push((format!("{} `hosts`", wanted.hosts_max), format!("{} hosts", record.hosts_max)));
    }
    // A host that names none goes by the volume's.
    if wanted.target_ns.is_some() && wanted.target_ns != record.target_ns {
        parts.push((target(wanted), target(record)));
    }
    let (here, there): (Vec<String>, Vec<String>) = parts.into_iter().unzip();
    (!here.is_empty()).then(|| {
        format!(
            "the configuration of this host says {}, and the volume has {}, as its first host \
             said, which holds: docs/cluster.md, \"Hosts and target\", says how it is changed",
            here.join(" and "),
            there.join(" and ")
        )
    })
}

/// What hosts and settings have done, in words.
fn changes(before: &Before, now: &Before, own: &str) -> Vec<String> {
    let mut all = Vec::new();
    let others = |these: &BTreeSet<String>, those: &BTreeSet<String>| -> Vec<String> {
        these.difference(those).filter(|host| *host != own).cloned().collect()
    };
    for host in others(&now.hosts, &before.hosts) {
        all.push(format!("host {host} is there"));
    }
    for host in others(&before.hosts, &now.hosts) {
        all.push(format!("host {host} is gone: it has ended, or has not reached etcd for a lease"));
    }
    for host in others(&before.places, &now.places) {
        all.push(format!("host {host} is forgotten: its place is free"));
    }
    for ((group, file), lines) in &now.set {
        if before.set.get(&(group.clone(), file.clone())) != Some(lines) {
            let lines = lines.trim().replace('\n', "; ");
            all.push(format!("{group}: {file} is set for all hosts: {lines}"));
        }
    }
    for (group, file) in before.set.keys().filter(|key| !now.set.contains_key(*key)) {
        all.push(format!("{group}: {file} is set for all hosts no more"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_core::time::Instant;

    const FOUR: VolumeRecord = VolumeRecord { hosts_max: 4, target_ns: Some(2_000_000) };

    fn view(places: &[&str], set: &[(&str, &str)]) -> VolumeView {
        let places = places.iter().map(|host| (*host).to_owned());
        let set = set.iter().map(|(group, lines)| {
            (((*group).to_owned(), "io.max".to_owned()), (*lines).to_owned())
        });
        VolumeView {
            volume: Some(FOUR),
            slots: (0..).zip(places).collect(),
            set: set.collect(),
            ..VolumeView::default()
        }
    }

    fn texts(notes: Vec<ClusterNote>) -> Vec<(bool, String)> {
        notes.into_iter().map(|note| (note.is_warning, note.text)).collect()
    }

    #[test]
    fn trouble_is_told_once_and_its_end_is_no_warning() {
        let mut news = VolumeNews::new("a", FOUR);
        let at = Instant::ZERO;
        let dark = |why: &str| StoreContact::Dark(StoreError::Unreachable(why.into()), at);
        let seen = view(&["a"], &[]);
        assert_eq!(news.after(&seen, (&StoreContact::Joined, Some(0)), None), []);
        let told = texts(news.after(&seen, (&dark("refused"), Some(0)), None));
        assert_eq!(told, [(true, "etcd is not reached: refused".to_owned())]);
        assert_eq!(news.after(&seen, (&dark("no answer"), Some(0)), None), []);
        // A store that answers and does not let the host in is reached.
        let twin = StoreContact::Dark(StoreError::Refused("another daemon".into()), at);
        let told = texts(news.after(&seen, (&twin, Some(0)), None));
        assert_eq!(told, [(true, "another daemon".to_owned())]);
        let told = texts(news.after(&seen, (&StoreContact::Joined, Some(0)), None));
        assert_eq!(told, [(false, "all is well again".to_owned())]);
        let told = texts(news.after(&seen, (&StoreContact::Joined, Some(0)), Some("disk")));
        let [(true, text)] = &told[..] else { panic!("{told:?}") };
        assert!(text.contains("window configure -a latency disk"), "{text}");
    }

    #[test]
    fn hosts_and_settings_are_told_of() {
        let mut news = VolumeNews::new("a", FOUR);
        let joined = (&StoreContact::Joined, Some(0));
        assert_eq!(news.after(&view(&["a", "b"], &[("/x", "pool bps=5\n")]), joined, None), []);
        let told = texts(news.after(&view(&["a"], &[("/y", "pool bps=7\n")]), joined, None));
        let words = [
            "host b is forgotten: its place is free",
            "/y: io.max is set for all hosts: pool bps=7",
            "/x: io.max is set for all hosts no more",
        ];
        assert_eq!(told, words.map(|text| (false, text.to_owned())));
    }

    #[test]
    fn a_configuration_that_does_not_hold_is_told_once() {
        let wanted = VolumeRecord { hosts_max: 9, target_ns: Some(9_000_000) };
        let mut news = VolumeNews::new("a", wanted);
        let joined = (&StoreContact::Joined, Some(0));
        let told = texts(news.after(&view(&["a"], &[]), joined, None));
        let [(true, text)] = &told[..] else { panic!("{told:?}") };
        for words in ["9 `hosts`", "a target of 9", "4 hosts", "a target of 2"] {
            assert!(text.contains(words), "'{words}' in {text}");
        }
        assert_eq!(news.after(&view(&["a"], &[]), joined, None), []);
        assert_eq!(difference(VolumeRecord { target_ns: None, ..FOUR }, FOUR), None);
    }
}
