//! The files that setup makes.

use super::facts::SetupFacts;
use super::systemd::unit_of;
use crate::config;
use crate::output::Failure;
use crate::pasted::shell;
use iopace_daemon::printable;
use std::fmt::Write as _;
use std::path::Path;

/// The unit as it is installed, for a machine where it is not.
const TEMPLATE: &str = include_str!("../../../../contrib/systemd/iopace-mount@.service");

/// The place of the binary in there.
const BINARY: &str = "/usr/bin/iopace";

/// The configuration of a directory.
///
/// # Errors
/// A name in it cannot be written down.
pub(super) fn configuration(facts: &SetupFacts, path: &Path) -> Result<String, Failure> {
    let directory = facts.directory.to_str().expect("looked at before");
    let quoted = |text: &str| toml_edit::Value::from(text).to_string();
    let comment = |text: &str| printable::name(text).into_owned();
    let at = shell(&facts.directory);
    let mut text = format!(
        "# iopace over {}, made by 'iopace setup'; 'iopace setup --undo' takes it away.\n\
         # All keys: docs/mount.md. A change is applied by: systemctl reload {}\n\
         # Is it right: iopace config check {}\n\
         # Does anything pass it by: iopace doctor {at}\n",
        comment(directory),
        comment(&crate::units::shell_word(&unit_of(&facts.directory))),
        comment(&shell(path)),
    );
    if !facts.below.is_empty() {
        text.push_str("#\n# Found below it:\n");
        for line in &facts.below {
            let _ = writeln!(text, "#   {}", comment(line));
        }
    }
    let _ = writeln!(text, "\n[[mount]]\ndir = {}", quoted(directory));
    text.push_str("sched = \"auto\"             # finds out what the disk is\n");
    text.push_str(
        "wait = 30                  # seconds at the start for those who use it to end\n",
    );
    if facts.is_read_only {
        text.push_str("read-only = true           # as its file system\n");
    }
    for service in &facts.services {
        let _ = write!(
            text,
            "\n# {}: {}\n[[mount.rule]]\ncgroup = {}\ngroup = {}\n",
            comment(&service.name),
            comment(&service.reason),
            quoted(&service.cgroup()),
            quoted(&service.group()),
        );
    }
    let mut groups: Vec<String> = facts.services.iter().map(|one| one.group()).collect();
    groups.sort();
    groups.dedup();
    for group in groups {
        let _ = write!(text, "\n[group.{}]\n\"io.weight\" = 100          # ", quoted(&group));
        text.push_str("its share beside the others; limits: docs/groups.md\n");
    }
    match config::parse(path, &text) {
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::new(format!("no configuration can be made: {error}"))),
    }
}

/// The unit of one directory, with the binary in its place.
pub(super) fn unit(binary: &str) -> String {
    TEMPLATE.replace(BINARY, binary)
}

/// The binary that a unit starts.
pub(super) fn binary_of(unit: &str) -> Option<&str> {
    unit.lines().find_map(|line| line.strip_prefix("ExecStart=")?.split_whitespace().next())
}

/// Has the unit take the configuration. `%i` is the name of the instance, as the file's.
pub(super) fn drop_in(binary: &str) -> String {
    format!(
        "# Made by 'iopace setup'; 'iopace setup --undo' takes it away.\n\
         [Service]\n\
         ExecStart=\n\
         ExecStart={binary} mount --foreground --config /etc/iopace/mounts/%i.toml\n\
         # Applies a changed file as a whole, or says in the journal why not.\n\
         ExecReload=/bin/kill -HUP $MAINPID\n"
    )
}

/// Has a service start after the mount and end before it; without the mount it does not start.
pub(super) fn order(directory: &Path) -> String {
    // A percent sign begins a specifier.
    let unit = unit_of(directory).replace('%', "%%");
    format!(
        "# Made by 'iopace setup'; 'iopace setup --undo' takes it away.\n\
         [Unit]\n\
         Requires={unit}\n\
         After={unit}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_of_the_shipped_unit_can_be_exchanged() {
        let unit = unit("/opt/iopace");
        assert_eq!(binary_of(&unit), Some("/opt/iopace"));
        assert!(!unit.contains(BINARY) && unit.contains("ExecStop=/opt/iopace unmount %f"));
    }
}
