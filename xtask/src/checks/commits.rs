//! Subjects of commits. They cannot be changed any more, so this only warns.

use super::{Check, Context, Finding};
use crate::tree::COMMITS;

/// Characters of a subject.
const SUBJECT_MAX: usize = 50;

/// The check.
pub static CHECK: Check = Check {
    name: "commits",
    rule: "a commit's subject is `component: what changes`, in at most 50 characters (a warning)",
    run: check,
    bad: || vec![(COMMITS, "fix stuff\n".into())],
    good: || vec![(COMMITS, "sched: rr waits for seeking tasks\n\nMerge branch 'a'\n".into())],
};

fn check(context: &mut Context<'_>) {
    let Some(file) = context.tree.file(COMMITS) else { return };
    for subject in file.text.lines().filter(|line| !line.is_empty() && !line.starts_with("Merge "))
    {
        let what = if !subject.contains(": ") {
            format!("`{subject}` names no component")
        } else if subject.chars().count() > SUBJECT_MAX {
            format!("`{subject}` is longer than {SUBJECT_MAX} characters")
        } else {
            continue;
        };
        let remedy = "next time: `component: what changes`; the rest belongs in the body";
        context
            .findings
            .push(Finding { is_warning: true, ..Finding::new("commit", 0, what, remedy) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::findings;

    #[test]
    fn it_only_warns() {
        let long = format!("core: {}", "x".repeat(SUBJECT_MAX));
        let found = findings(&CHECK, &vec![(COMMITS, format!("no component\n{long}\n"))]);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|finding| finding.is_warning));
    }
}
