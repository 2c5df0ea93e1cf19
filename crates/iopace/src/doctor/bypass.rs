//! What goes past iopace to the files of a directory, or to the disk below it.

use super::Finding;
use crate::pasted::{ending, shell};
use crate::storage::{Layer, Sysfs, number_of};
use iopace_daemon::fuse::mounting::busy::User;
use iopace_daemon::fuse::mounting::survey::{Survey, is_ancestor};
use iopace_daemon::fuse::mounting::users::openers_of_disks;
use iopace_daemon::mount_table::{self, Entry};
use std::fs;
use std::path::{Path, PathBuf};

/// So many processes are told of, one finding each; the others are counted.
const USERS_MAX: usize = 20;

/// All that passes iopace by.
pub fn findings(survey: &Survey, layers: &[Layer]) -> Vec<Finding> {
    let subject = survey.directory.display().to_string();
    let is_mounted = !survey.mounts.is_empty();
    let mut all = Vec::new();
    let mut add = |kind, text: String, command| {
        all.push(Finding { kind, subject: subject.clone(), text, command });
    };
    for entry in &survey.covers {
        let shown = entry.mountpoint.display();
        let text = format!(
            "{} is mounted over the mount of iopace at {shown} and hides it",
            entry.source.display()
        );
        add("covered", text, format!("umount {}", shell(&entry.mountpoint)));
    }
    for place in &survey.elsewhere {
        let shown = place.display();
        let text = format!("{shown} shows the same files: who opens them there passes iopace by");
        add("bind-mount", text, unmounting(place));
    }
    let mut users: Vec<&User> = survey.looked.users.iter().collect();
    users.sort_by_key(|user| (!user.writes(), user.pid));
    for user in users.iter().take(USERS_MAX) {
        let (kind, text, command) = of_user(user, &subject, is_mounted);
        add(kind, text, command);
    }
    if users.len() > USERS_MAX {
        let more = users.len() - USERS_MAX;
        let text = format!("{more} more processes use {subject} past iopace");
        add("bypass-read", text, format!("fuser -v {}", shell(&survey.directory)));
    }
    if !survey.looked.is_whole() {
        let missed = survey.looked.missed();
        let text = format!(
            "whether {missed} use {subject} past iopace is not known: not everything that they \
             have open could be looked at in time"
        );
        add("not-looked-at", text, format!("fuser -v {}", shell(&survey.directory)));
    }
    all.extend(raw_disk(layers));
    all.extend(swap(survey, layers, &swaps(), Sysfs(Path::new("/sys"))));
    all
}

/// A bind mount is unmounted; what is only a path below another mount point, by that.
fn unmounting(place: &Path) -> String {
    let table = mount_table::read().unwrap_or_default();
    let at = mount_table::covering(&table, place).map(|entry| entry.mountpoint.clone());
    format!("umount {}", shell(at.as_deref().filter(|at| *at != Path::new("/")).unwrap_or(place)))
}

fn of_user(user: &User, directory: &str, is_mounted: bool) -> (&'static str, String, String) {
    if !is_mounted {
        let text = format!("{directory} is in use by {user}: end that before it is mounted");
        let command = match is_ancestor(user.pid) {
            true => "cd /".into(),
            false => ending(user.pid, "stop"),
        };
        return ("in-use", text, command);
    }
    if is_ancestor(user.pid) {
        let text = format!("this shell uses {directory} past iopace: {user}");
        return ("bypass-read", text, format!("cd {}", shell(Path::new(directory))));
    }
    let (kind, verb) = match user.writes() {
        true => ("bypass-write", "writes"),
        false => ("bypass-read", "is"),
    };
    let text = format!(
        "{user} {verb} below {directory} past iopace, with files that it opened before the mount \
         or by another path: have it open them anew, or end it"
    );
    (kind, text, ending(user.pid, "restart"))
}

/// Processes that have the disk itself open, or a volume on it.
fn raw_disk(layers: &[Layer]) -> Vec<Finding> {
    let numbers: Vec<(u32, u32)> = layers.iter().filter_map(Layer::numbers).collect();
    if numbers.is_empty() {
        return Vec::new();
    }
    let looked = openers_of_disks(numbers);
    let writers = looked.users.iter().filter(|user| user.writes()).take(USERS_MAX);
    let names: Vec<String> = layers.iter().map(|layer| format!("/dev/{}", layer.name)).collect();
    let names = names.join(", ");
    let finding = |user: &User| Finding {
        kind: "raw-disk",
        subject: names.clone(),
        text: format!("{user} has a disk below open for writing, past the file system ({names})"),
        command: ending(user.pid, "stop"),
    };
    writers.map(finding).collect()
}

/// The places of swap space, as the kernel has them.
fn swaps() -> Vec<PathBuf> {
    let text = fs::read("/proc/swaps").unwrap_or_default();
    parse_swaps(&text)
}

fn parse_swaps(text: &[u8]) -> Vec<PathBuf> {
    let lines = text.split(|byte| *byte == b'\n').skip(1);
    let first = |line: &[u8]| -> Option<PathBuf> {
        let word = line.split(|byte| matches!(byte, b' ' | b'\t')).next()?;
        (!word.is_empty()).then(|| mount_table::unescape(word))
    };
    lines.filter_map(first).collect()
}

fn swap(survey: &Survey, layers: &[Layer], swaps: &[PathBuf], sysfs: Sysfs<'_>) -> Vec<Finding> {
    let table = mount_table::read().unwrap_or_default();
    let disks: Vec<&str> = names(layers);
    let finding = |place: &PathBuf| {
        let shared = match place.starts_with("/dev") {
            true => names_of(&sysfs.stack(&number_of(place)?)),
            false => {
                let on: &Entry = mount_table::covering(&table, place)?;
                match on.device == survey.below.device {
                    true => disks.iter().map(ToString::to_string).collect(),
                    false => names_of(&sysfs.below(on)),
                }
            }
        };
        let disk = shared.into_iter().find(|name| disks.contains(&&**name))?;
        let shown = place.display();
        Some(Finding {
            kind: "swap",
            subject: shown.to_string(),
            text: format!(
                "the machine swaps to {shown}, on the disk {disk} that is below {}: the kernel's \
                 reads and writes for it pass iopace by and wait for nobody",
                survey.directory.display()
            ),
            command: format!("swapoff {}", shell(place)),
        })
    };
    swaps.iter().filter_map(finding).collect()
}

fn names(layers: &[Layer]) -> Vec<&str> {
    layers.iter().filter(|layer| layer.is_disk()).map(|layer| &*layer.name).collect()
}

fn names_of(layers: &[Layer]) -> Vec<String> {
    names(layers).into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::tests::fake;
    use iopace_daemon::fuse::mounting::look::Looked;

    #[test]
    fn swap_space_is_read_with_its_escapes() {
        let text = b"Filename\tType\n/dev/dm-1   partition 1 0 -2\n/sw\\040ap file 1 0 -3\n";
        assert_eq!(parse_swaps(text), [PathBuf::from("/dev/dm-1"), PathBuf::from("/sw ap")]);
        assert!(parse_swaps(b"Filename\tType\n").is_empty());
    }

    #[test]
    fn a_swap_file_on_the_same_file_system_is_found() {
        let root = fake(&[("b/sda/queue/rotational", "1\n")], &[("8:0", "b/sda")]);
        let table = mount_table::read().expect("read");
        let below = mount_table::covering(&table, Path::new("/")).expect("a root").clone();
        let survey = Survey {
            directory: "/srv".into(),
            below,
            mounts: Vec::new(),
            covers: Vec::new(),
            elsewhere: Vec::new(),
            looked: Looked::default(),
        };
        let sysfs = Sysfs(root.path());
        let layers = sysfs.stack("8:0");
        let found = swap(&survey, &layers, &["/swap file".into(), "/dev/none".into()], sysfs);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].command, "swapoff '/swap file'");
        assert!(found[0].text.contains("the disk sda"), "{found:?}");
        assert!(swap(&survey, &[], &["/swap".into()], sysfs).is_empty(), "no disk is known");
    }
}
