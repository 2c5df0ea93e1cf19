//! A setting as a request to the API, and the same as a command line.

use super::Case;
use crate::api::{Action, Change, PaceChange, RemedyChange, WindowChange, WriteFile};
use crate::figures::shell_word;
use std::collections::BTreeMap;

/// A line for the device in a file of a group.
pub(super) fn group_file(case: &Case<'_>, group: &str, file: &str, value: &str) -> RemedyChange {
    let text = format!("{} {value}", case.device());
    RemedyChange::GroupFile(WriteFile {
        group: group.into(),
        file: file.into(),
        text,
        parents: false,
    })
}

/// Another scheduler: put in, or exchanged for the inserted one.
pub(super) fn scheduler(case: &Case<'_>, name: &str) -> RemedyChange {
    let action = if case.span.last.inserted { Action::Configure } else { Action::Insert };
    RemedyChange::Scheduler(Change { action, algorithm: Some(name.into()), set: BTreeMap::new() })
}

/// Another value of a parameter of the scheduler at work.
pub(super) fn parameter(name: &str, value: u64) -> RemedyChange {
    let set = BTreeMap::from([(name.into(), value)]);
    RemedyChange::Scheduler(Change { action: Action::Configure, algorithm: None, set })
}

/// Another policy of stage pace.
pub(super) fn pace(policy: &str) -> RemedyChange {
    RemedyChange::Pace(PaceChange { policy: Some(policy.into()), pause_target_ns: None })
}

/// Another policy of stage window.
pub(super) fn window_policy(policy: &str) -> RemedyChange {
    RemedyChange::Window(WindowChange { policy: Some(policy.into()), depth: None })
}

/// Another depth of the window.
pub(super) fn window_depth(depth: u32) -> RemedyChange {
    RemedyChange::Window(WindowChange { policy: None, depth: Some(depth) })
}

/// The command line that does the same, without `--control`.
pub(super) fn command(change: &RemedyChange, device: &str) -> String {
    let device = shell_word(device);
    match change {
        RemedyChange::GroupFile(WriteFile { group, file, text, .. }) => {
            format!("iopace group set {} {file} {}", shell_word(group), shell_word(text))
        }
        RemedyChange::Scheduler(Change { action, algorithm, set }) => {
            let verb = match action {
                Action::Insert => "insert",
                Action::Configure => "configure",
                Action::Destroy => "destroy",
            };
            let algorithm = algorithm.iter().map(|name| format!("-a {name} "));
            let set = set.iter().map(|(name, value)| format!("--set {name}={value} "));
            let words: String = algorithm.chain(set).collect();
            format!("iopace sched {verb} {words}{device}")
        }
        RemedyChange::Pace(PaceChange { policy, .. }) => {
            let policy = policy.iter().map(|name| format!("-a {name} ")).collect::<String>();
            format!("iopace pace configure {policy}{device}")
        }
        RemedyChange::Window(WindowChange { policy, depth }) => {
            let policy = policy.iter().map(|name| format!("-a {name} "));
            let depth = depth.iter().map(|depth| format!("--depth {depth} "));
            let words: String = policy.chain(depth).collect();
            format!("iopace window configure {words}{device}")
        }
    }
}
