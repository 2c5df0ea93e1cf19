//! A directory that is in use when it is to be mounted: who works in it already goes on past
//! iopace, and does not see what those have cached who come through the mount.

use super::mounting::MountError;
use super::mounting::busy::{self, User};
use super::mounting::look::Looked;
use super::mounting::region::{Region, is_ancestor};
use crate::clock;
use crate::config::{InUse, Notes};
use crate::limits::{BUSY_LOOK_ATTACHED_PATIENCE, BUSY_LOOK_PATIENCE};
use iopace_core::time::Instant;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Between two looks at a directory that is waited for: a look costs milliseconds.
const STEP: Duration = Duration::from_millis(200);

/// A program that only looks into the directory in passing has left it after this time.
const PASSING: Duration = Duration::from_millis(500);

/// Sees to it that nobody uses the directory who was not said to be welcome; waits for their end if
/// that was asked for, from the time that is given.
pub(super) fn settle(
    region: &mut Region,
    path: &Path,
    (wanted, asked): (InUse, Instant),
    notes: &Notes,
) -> Result<(), MountError> {
    let shown = path.display();
    for other in region.elsewhere() {
        let other = other.display();
        notes.say(&format!("warning: {other} shows files of {shown} too, past iopace"));
    }
    let since = wanted.wait.map_or_else(clock::now, |_| asked);
    let mut told: Option<Vec<u32>> = None;
    loop {
        let looked = region.users(BUSY_LOOK_PATIENCE);
        let users = &looked.users;
        if let Some(reason) = refusal(&looked, wanted) {
            let patience = wanted.wait.unwrap_or(PASSING);
            if clock::elapsed(since) >= patience || !notes.is_heard() {
                return Err(MountError::InUse(path.to_owned(), reason));
            }
            let names = match users.is_empty() {
                true => looked.missed(),
                false => busy::list(users),
            };
            // What they have of it may change at any time.
            let pids: Vec<u32> = match users.is_empty() {
                true => looked.missed.iter().map(|one| one.pid).collect(),
                false => users.iter().map(|user| user.pid).collect(),
            };
            if wanted.wait.is_some() && told.as_ref() != Some(&pids) {
                notes.say(&format!("{shown}: waiting for {names}"));
                told = Some(pids);
            }
            // SLEEP: the kernel tells nobody that a file is closed.
            thread::sleep(STEP);
            continue;
        }
        warnings(&looked, &shown.to_string()).iter().for_each(|warning| notes.say(warning));
        return Ok(());
    }
}

/// What may come of it that a directory is mounted while it is used: those who write can do harm.
fn warnings(looked: &Looked, shown: &str) -> Vec<String> {
    let (writers, readers): (Vec<User>, Vec<User>) =
        looked.users.iter().cloned().partition(User::writes);
    let harm = "past iopace: a file that programs on both sides write or map, or change without \
                locks, can be destroyed, a database above all";
    let mut all = Vec::new();
    if !writers.is_empty() {
        let names = busy::list(&writers);
        all.push(format!(
            "warning: {shown} is written by {names}, {harm}; end them first, or let \
                          nobody use their files through the mount"
        ));
    }
    if !looked.is_whole() {
        let names = looked.missed();
        all.push(format!(
            "warning: {shown} may be written by {names}, {harm}: not everything that \
                          they have open could be looked at in time"
        ));
    }
    if !readers.is_empty() {
        let names = busy::list(&readers);
        all.push(format!("warning: {shown} is in use by {names}: they go on past iopace"));
    }
    all
}

/// Looks again when the mount is attached and not served as yet: from here on all who come are
/// held, and whoever has opened something before is seen. It takes as long as that may last.
pub(super) fn settle_again(
    region: &mut Region,
    path: &Path,
    wanted: InUse,
) -> Result<(), MountError> {
    let mut looked = region.users(BUSY_LOOK_ATTACHED_PATIENCE);
    looked.users.retain(User::writes);
    match refusal(&looked, wanted) {
        Some(reason) => Err(MountError::InUse(path.to_owned(), reason)),
        None => Ok(()),
    }
}

/// The users, and the word that lets them be; `None` if they are welcome.
fn refusal(looked: &Looked, wanted: InUse) -> Option<String> {
    let (writers, readers): (Vec<User>, Vec<User>) =
        looked.users.iter().cloned().partition(|user| user.writes());
    if !writers.is_empty() && !wanted.while_written {
        return Some(format!(
            "is written by {}: who writes past iopace does not see what those have cached who come \
             through it, so that a database would be destroyed; end that first, or --wait for its \
             end (--while-written mounts all the same)",
            busy::list(&writers)
        ));
    }
    if !looked.is_whole() && !wanted.while_written {
        return Some(format!(
            "may be written by {}: not everything that they have open could be looked at in time; \
             end them or try again, or --wait for their end (--while-written mounts all the same, \
             which destroys a database if one of them writes to it)",
            looked.missed()
        ));
    }
    if readers.is_empty() || wanted.while_in_use || wanted.while_written {
        return None;
    }
    let is_own = |user: &&User| is_ancestor(user.pid);
    let remedy = match readers.iter().find(is_own) {
        Some(shell) => format!("'cd' out of it in {} (pid {})", shell.name, shell.pid),
        None => "end that first".into(),
    };
    Some(format!(
        "is in use by {}: they would go on past iopace; {remedy}, or say --while-in-use, or --wait \
         for their end",
        busy::list(&readers)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuse::mounting::look::Missed;
    use busy::Use;
    use std::slice;

    fn user(pid: u32, one: Use) -> User {
        User { pid, name: "vim".into(), uses: [one].into() }
    }

    #[test]
    fn writers_are_warned_of_more_than_readers() {
        let (reads, writes) = (user(u32::MAX, Use::OpenFile), user(u32::MAX - 1, Use::WriteLock));
        let missed = Missed { pid: 7, name: "many".into(), reason: "too much" };
        let looked =
            Looked { users: vec![reads, writes], missed: vec![missed], ..Looked::default() };
        let [writer, unseen, reader] = &*warnings(&looked, "/srv") else { panic!("three") };
        assert!(
            writer.starts_with("warning: /srv is written by vim (pid 4294967294: write lock),")
        );
        assert!(unseen.starts_with("warning: /srv may be written by many (pid 7: too much),"));
        for warning in [writer, unseen] {
            assert!(warning.contains("destroyed, a database above all"), "{warning}");
        }
        let mild = "warning: /srv is in use by vim (pid 4294967295: open file): they go on past";
        assert!(reader.starts_with(mild) && !reader.contains("destroyed"), "{reader}");
        assert!(warnings(&Looked::default(), "/srv").is_empty());
    }

    #[test]
    fn readers_and_writers_have_a_word_each() {
        let (reads, writes) = (user(u32::MAX, Use::OpenFile), user(u32::MAX - 1, Use::WriteLock));
        let none = InUse::default();
        let in_use = InUse { while_in_use: true, ..none };
        let written = InUse { while_written: true, ..none };
        let looked = |users: &[User]| Looked { users: users.to_vec(), ..Looked::default() };
        let refused = |users: &[User], wanted| refusal(&looked(users), wanted).unwrap_or_default();
        assert_eq!(refused(&[], none), "");
        assert!(refused(slice::from_ref(&reads), none).contains("--while-in-use"));
        assert_eq!(refused(slice::from_ref(&reads), in_use), "");
        let both = [reads, writes];
        for wanted in [none, in_use] {
            let reason = refused(&both, wanted);
            assert!(reason.starts_with("is written by vim (pid 4294967294: write lock):"));
            assert!(reason.contains("--while-written"));
        }
        assert_eq!(refused(&both, written), "");
        let shell = user(std::os::unix::process::parent_id(), Use::WorkingDirectory);
        assert!(refused(&[shell], none).contains("'cd' out of it in vim"));
        // Those who could not be looked at may write.
        let missed = Missed { pid: u32::MAX, name: "many".into(), reason: "too much" };
        let looked = Looked { missed: vec![missed], unseen_count: 3, ..Looked::default() };
        for wanted in [none, in_use] {
            let reason = refusal(&looked, wanted).expect("refused");
            let named = "many (pid 4294967295: too much), 3 processes after them: ";
            assert!(reason.starts_with(&format!("may be written by {named}")), "{reason}");
            assert!(reason.contains("--while-written"), "{reason}");
        }
        assert_eq!(refusal(&looked, written), None);
    }
}
