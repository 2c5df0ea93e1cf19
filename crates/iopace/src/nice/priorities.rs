//! The I/O class of every thread of a program, and what each had before.

use iopace_core::group::Class;
use iopace_daemon::ioprio::{self, IoPriority};
use iopace_daemon::{ProcessFamily, Thread};
use std::collections::BTreeMap;
use std::io;

/// What the threads of a program had before.
#[derive(Debug, Default)]
pub(super) struct Priorities {
    before: BTreeMap<Thread, IoPriority>,
    /// What the first one had: those that came later have it from their parents.
    first: Option<IoPriority>,
    /// What they had before the last change.
    last: Option<IoPriority>,
    /// What they have now.
    now: Option<IoPriority>,
}

impl Priorities {
    /// A program that was started with a class; `None` for one that ran before.
    pub(super) fn new(started_with: Option<Class>) -> Priorities {
        let now = started_with.map(IoPriority::from);
        Priorities { now, ..Priorities::default() }
    }

    /// Whether the class of a thread at least may be changed here.
    ///
    /// # Errors
    /// All that are there belong to another user.
    pub(super) fn check(family: &ProcessFamily) -> io::Result<()> {
        let mut result = Ok(());
        for thread in family.threads() {
            let Ok(own) = ioprio::get(thread.number) else { continue };
            match ioprio::set(thread.number, own) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    result = Err(error);
                }
                _ => return Ok(()),
            }
        }
        result
    }

    /// Gives every thread a class.
    pub(super) fn change(&mut self, family: &ProcessFamily, class: Class) {
        let is_first = self.now.is_none();
        self.last = self.now;
        self.now = Some(class.into());
        for thread in family.threads() {
            let Ok(own) = ioprio::get(thread.number) else { continue };
            if is_first {
                self.before.insert(thread, own);
                self.first.get_or_insert(own);
            }
            // One that has ended meanwhile, or belongs to another user by now.
            let _ = ioprio::set(thread.number, class.into());
        }
        self.last = self.last.or(self.first);
    }

    /// Gives it those that still have what they had before the last change: their parents were
    /// changed after they had been started. What a program has set itself stays.
    pub(super) fn repeat(&self, family: &ProcessFamily, class: Class) {
        for thread in family.threads() {
            if ioprio::get(thread.number).ok() == self.last && self.last.is_some() {
                let _ = ioprio::set(thread.number, class.into());
            }
        }
    }

    /// Gives every thread what it had before.
    pub(super) fn release(&self, family: &ProcessFamily) {
        let Some(first) = self.first else { return };
        for thread in family.threads() {
            let own = self.before.get(&thread).copied().unwrap_or(first);
            let _ = ioprio::set(thread.number, own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn sleeping() -> Child {
        Command::new("sleep").arg("60").spawn().expect("started")
    }

    #[test]
    fn every_thread_gets_back_its_own() {
        let mut children = [sleeping(), sleeping(), sleeping()];
        let pids: Vec<u32> = children.iter().map(Child::id).collect();
        let best_effort = IoPriority::from(Class::BestEffort);
        let high = IoPriority(best_effort.0 - 3);
        let get = |pid: &u32| ioprio::get(*pid).expect("there");
        ioprio::set(pids[0], best_effort).expect("set");
        ioprio::set(pids[1], high).expect("set");
        ioprio::set(pids[2], best_effort).expect("set");
        let family = ProcessFamily::of(&pids);
        Priorities::check(&family).expect("our own");
        let mut priorities = Priorities::new(None);
        priorities.change(&family, Class::Idle);
        assert!(pids.iter().all(|pid| get(pid) == Class::Idle.into()));
        // One of them started a child before it was changed; another one set something itself.
        ioprio::set(pids[2], best_effort).expect("set");
        ioprio::set(pids[1], high).expect("set");
        priorities.repeat(&family, Class::Idle);
        assert_eq!((get(&pids[2]), get(&pids[1])), (Class::Idle.into(), high));
        priorities.change(&family, Class::BestEffort);
        priorities.release(&family);
        let all: Vec<IoPriority> = pids.iter().map(get).collect();
        assert_eq!(all, [best_effort, high, best_effort]);
        for child in &mut children {
            child.kill().and_then(|()| child.wait()).expect("ended");
        }
    }
}
