//! Settings that the kernel has for a cgroup, as settings of the group that stands for it.
//!
//! The files are those of the kernel's controller `io` (version 2) or `blkio` (version 1), with
//! numbers of disks, `MAJ:MIN`. The owner of a cgroup may write some of them, and newer kernels
//! have more keys: what cannot be read here is left out, word by word, and nothing is refused.

use crate::files::value::Value;
use crate::files::{FILES, rates};
use crate::own::{Latency, Own, Table};
use crate::tree::Tree;
use iopace_core::group::{Limits, Weight};
use iopace_core::request::GroupId;

/// The files that are read in version 2. `io.weight` counts where `io.bfq.weight` says otherwise:
/// systemd writes both, the latter on a scale of its own.
pub const CGROUP_FILES: [&str; 4] = ["io.max", "io.latency", "io.bfq.weight", "io.weight"];

/// The files that are read in version 1.
pub const BLKIO_FILES: [&str; 5] = [
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_iops_device",
    "blkio.bfq.weight",
];

/// The settings of one cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupSettings(Own);

impl CgroupSettings {
    /// Takes what a file says. `on` names the devices that are on the disk of a number, `8:0`.
    /// Where several disks below a device have limits or targets, the lowest holds.
    pub fn take(&mut self, file: &str, text: &str, on: impl Fn(&str) -> Vec<String>) {
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let Some(first) = words.next() else { continue };
            let words: Vec<&str> = words.collect();
            if first.contains(':') {
                on(first).into_iter().for_each(|device| self.take_line(file, device, &words));
            } else if file.ends_with(".weight") {
                // `default 100`, or `100` alone.
                let weight = words.first().copied().unwrap_or(first);
                self.set_weight(None, weight);
            }
        }
    }

    fn take_line(&mut self, file: &str, device: String, words: &[&str]) {
        let throttled = [
            ("blkio.throttle.read_bps_device", "rbps"),
            ("blkio.throttle.write_bps_device", "wbps"),
            ("blkio.throttle.read_iops_device", "riops"),
            ("blkio.throttle.write_iops_device", "wiops"),
        ];
        if let Some((_, key)) = throttled.iter().find(|(name, _)| *name == file) {
            let words: Vec<String> = words.iter().map(|word| format!("{key}={word}")).collect();
            return self.limit(device, words.iter().map(String::as_str));
        }
        match file {
            "io.max" => self.limit(device, words.iter().copied()),
            "io.latency" => {
                let targets = words.iter().filter_map(|word| read::<Latency>(word)?.0);
                let before = self.0.latency.effective(Some(&device)).0;
                let target = targets.chain(before).min();
                set(&mut self.0.latency, Some(device), Latency(target));
            }
            "io.weight" | "io.bfq.weight" | "blkio.bfq.weight" => {
                let weight = words.first().copied().unwrap_or_default();
                self.set_weight(Some(device), weight);
            }
            _ => {}
        }
    }

    fn limit<'a>(&mut self, device: String, words: impl Iterator<Item = &'a str>) {
        let named =
            words.fold(Limits::default(), |limits, word| limits.parse(&[word]).unwrap_or(limits));
        let limits = rates::both(named, self.0.max.effective(Some(&device)));
        set(&mut self.0.max, Some(device), limits);
    }

    fn set_weight(&mut self, device: Option<String>, word: &str) {
        if let Some(weight) = read::<Weight>(word) {
            set(&mut self.0.weight, device, weight);
        }
    }
}

/// A value of one word.
fn read<T: Value>(word: &str) -> Option<T> {
    T::default().parse(&[word]).ok()
}

/// Keeps a value, if it is not what is built in.
fn set<T: Value>(table: &mut Table<T>, device: Option<String>, value: T) {
    if value != T::default() {
        table.set(device.as_deref(), Some(value));
    }
}

impl Tree {
    /// Groups below this path stand for cgroups: what is written for them stays, be it what is
    /// built in, as a cgroup may have something else.
    pub fn map_cgroups(&mut self, path: &str) {
        self.mapped.insert(path.trim_end_matches('/').to_owned());
    }

    /// Whether a group may stand for a cgroup.
    pub(crate) fn is_mapped(&self, id: GroupId) -> bool {
        let path = self.path(id);
        let rest = |above: &String| path.strip_prefix(&**above);
        self.mapped.iter().filter_map(rest).any(|rest| rest.len() > 1 && rest.starts_with('/'))
    }

    /// From now on a group has what its cgroup has, where nothing is written for it here. Whether
    /// that is something else than before.
    pub fn follow(&mut self, id: GroupId, settings: CgroupSettings) -> bool {
        let followed = self.followed_mut(id);
        let before = followed.take();
        *followed = (settings != CgroupSettings::default()).then(|| Box::new(settings.0));
        *followed != before
    }

    /// The settings of the cgroup that a group stands for, by file, as lines.
    pub fn cgroup_files(&self, id: GroupId) -> Vec<(&'static str, String)> {
        let Some(own) = self.followed(id) else { return Vec::new() };
        let text = |name: &str| match name {
            "io.weight" => own.weight.print(true),
            "io.max" => own.max.print(true),
            "io.latency" => own.latency.print(true),
            _ => String::new(),
        };
        let files = FILES.iter().map(|spec| (spec.name, text(spec.name)));
        files.filter(|(_, text)| !text.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Source;

    const DEVICES: [&str; 2] = ["disk", "slow"];

    /// `disk` is a volume, 253:0, on 8:0; `slow` is on 8:16.
    fn on(number: &str) -> Vec<String> {
        let names: &[&str] = match number {
            "253:0" | "8:0" => &["disk"],
            "8:16" => &["slow"],
            _ => &[],
        };
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn read_all(files: &[(&str, &str)]) -> CgroupSettings {
        let mut settings = CgroupSettings::default();
        files.iter().for_each(|(file, text)| settings.take(file, text, on));
        settings
    }

    /// A group that stands for a cgroup with these files.
    fn tree(files: &[(&str, &str)]) -> (Tree, GroupId) {
        let mut tree = Tree::new();
        tree.map_cgroups("/units");
        let id = tree.create_all("/units/web").expect("made");
        tree.follow(id, read_all(files));
        (tree, id)
    }

    fn told(tree: &Tree, id: GroupId, file: &str, device: &str) -> (String, Source) {
        let told = tree.explain(id, file, device).expect("a file");
        (told.value, told.source)
    }

    #[test]
    fn the_files_of_the_kernel_are_read() {
        let (tree, id) = tree(&[
            (
                "io.max",
                "253:0 rbps=1048576 wbps=max riops=max wiops=max\n8:0 rbps=2097152 wiops=7\n",
            ),
            ("io.latency", "8:0 target=75000\n253:0 target=20000\n"),
            ("io.bfq.weight", "default 181\n8:16 300\n"),
            ("io.weight", "default 1000\n"),
        ]);
        let cgroup = |value: &str| (value.to_owned(), Source::Cgroup);
        assert_eq!(told(&tree, id, "io.max", "disk"), cgroup("rbps=1048576 wiops=7"));
        assert_eq!(told(&tree, id, "io.max", "slow"), ("max".into(), Source::BuiltIn));
        assert_eq!(told(&tree, id, "io.latency", "disk"), cgroup("target=20000"));
        assert_eq!(told(&tree, id, "io.weight", "disk"), cgroup("1000"));
        assert_eq!(told(&tree, id, "io.weight", "slow"), cgroup("300"));
        let shown = tree.cgroup_files(id);
        let right = [
            ("io.weight", "default 1000\nslow 300\n"),
            ("io.max", "disk rbps=1048576 wiops=7\n"),
            ("io.latency", "disk target=20000\n"),
        ];
        assert_eq!(shown, right.map(|(file, text)| (file, text.to_owned())));
        assert!(tree.read(id, "io.max").expect("a file").is_empty(), "nothing was written");
    }

    #[test]
    fn the_files_of_version_1_are_read() {
        let (tree, id) = tree(&[
            ("blkio.throttle.read_bps_device", "8:0 1048576\n8:16 5\n"),
            ("blkio.throttle.write_iops_device", "8:0 120\n"),
            ("blkio.bfq.weight", "500\n"),
        ]);
        assert_eq!(told(&tree, id, "io.max", "disk").0, "rbps=1048576 wiops=120");
        assert_eq!(told(&tree, id, "io.max", "slow").0, "rbps=5");
        assert_eq!(told(&tree, id, "io.weight", "slow").0, "500");
    }

    #[test]
    fn what_is_written_here_counts_before_the_cgroup() {
        let files = [("io.max", "8:0 rbps=1000 wbps=2000\n"), ("io.weight", "default 300\n")];
        let (mut tree, id) = tree(&files);
        let mut write = |file: &str, text: &str| {
            let changed = tree.write(id, file, text, &DEVICES).expect("written");
            (changed.devices.len(), told(&tree, id, file, "disk"))
        };
        // A key that is not named keeps the value that it has from the cgroup.
        let both = "rbps=1000 wbps=1".to_owned();
        assert_eq!(write("io.max", "disk wbps=1"), (1, (both, Source::Device)));
        assert_eq!(write("io.max", "disk max"), (1, ("max".into(), Source::Device)));
        let again = "rbps=1000 wbps=2000".to_owned();
        assert_eq!(write("io.max", "disk default"), (1, (again, Source::Cgroup)));
        assert_eq!(write("io.max", "default max"), (1, ("max".into(), Source::Group)));
        // The value that is built in is one, if it is written.
        assert_eq!(write("io.weight", "100"), (2, ("100".into(), Source::Group)));
        assert_eq!(write("io.weight", "disk 100"), (0, ("100".into(), Source::Device)));
        assert_eq!(tree.read(id, "io.weight").expect("a file"), "default 100\ndisk 100\n");
    }

    #[test]
    fn what_was_written_first_stays() {
        let (mut tree, id) = tree(&[]);
        tree.write(id, "io.max", "disk max", &DEVICES).expect("written");
        tree.write(id, "io.weight", "100", &DEVICES).expect("written");
        assert_eq!(tree.read(id, "io.max").expect("a file"), "disk max\n");
        let other = tree.create("/unitsize").expect("made");
        tree.write(other, "io.max", "disk max", &DEVICES).expect("written");
        assert!(tree.read(other, "io.max").expect("a file").is_empty(), "no cgroup");
        let settings = read_all(&[("io.max", "8:0 rbps=1000\n8:16 wbps=7\n")]);
        assert!(tree.follow(id, settings.clone()) && !tree.follow(id, settings));
        assert_eq!(told(&tree, id, "io.max", "disk"), ("max".into(), Source::Device));
        assert_eq!(told(&tree, id, "io.max", "slow"), ("wbps=7".into(), Source::Cgroup));
        assert!(tree.follow(id, CgroupSettings::default()), "the cgroup is gone");
        assert_eq!(told(&tree, id, "io.max", "slow"), ("max".into(), Source::BuiltIn));
    }

    #[test]
    fn a_cgroup_refuses_no_write() {
        let (mut tree, _) = tree(&[("io.max", "8:0 rbps=1000\n")]);
        let child = tree.create_all("/units/web/a").expect("made");
        let mut write = |id, text: &str| tree.write(id, "io.max", text, &DEVICES);
        assert!(write(child, "disk rbps=5000").is_ok(), "the cgroup above has less");
        let units = tree.find("/units").expect("there");
        tree.write(child, "io.max", "disk default", &DEVICES).expect("written");
        assert!(tree.write(units, "io.max", "disk rbps=10", &DEVICES).is_ok(), "below has more");
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let settings = read_all(&[
            ("io.max", "8:0 rbps=1000 new=3 wbps=-1\n8:0\n:\n7:7 rbps=1\nrbps=1\n\n"),
            ("io.latency", "8:0 target=x depth=3\n8:16 target=999999999999\n"),
            ("io.weight", "default 0\n8:0 20000\n8:16\n"),
            ("io.cost.qos", "8:0 enable=1\n"),
        ]);
        assert_eq!(settings, read_all(&[("io.max", "8:0 rbps=1000\n")]));
    }

    #[test]
    fn no_text_is_too_odd() {
        let text = "default 100\n8:0 rbps=1048576 wbps=max\n8:16 target=75000\n8:0 7\n\u{e9}=:\n";
        let whole: Vec<char> = text.chars().collect();
        for from in 0..whole.len() {
            for to in from..whole.len() {
                let part: String = whole[from..to].iter().rev().chain(&whole[to..]).collect();
                for file in CGROUP_FILES.iter().chain(&BLKIO_FILES) {
                    let _ = read_all(&[(file, &part)]);
                }
            }
        }
    }
}
