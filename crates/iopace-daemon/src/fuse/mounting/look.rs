//! A look at all processes that ends: in time, and after so much work for each of them.
//!
//! Any user can have a process that takes long to look at (a million open files, as many mappings),
//! and one whose memory map is locked by a call that does not return holds up whoever reads it
//! (`/proc/PID/maps`), without a way to be woken. So the look is a thread's: the caller waits for a
//! while and goes on with what was found, and with the names of those who were not looked at. Time
//! that the thread stands in line for a processor does not count.

use super::budget::{Bounds, Budget};
use super::busy::{self, Scope, User, name_of, uses};
use super::patience::Patience;
use crate::limits::LOOK_GRACE;
use std::fmt;
use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// A process that was not looked at, or not as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// Its number.
    pub pid: u32,
    /// Its name, safe for a terminal.
    pub name: String,
    /// How far the look came.
    pub reason: &'static str,
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {}: {})", self.name, self.pid, self.reason)
    }
}

/// The processes that were found, and those that were not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Those that use something.
    pub users: Vec<User>,
    /// Those of which it is not known, as far as they can be named.
    pub missed: Vec<Missed>,
    /// How many more there are.
    pub unseen_count: usize,
}

impl Looked {
    /// Whether everybody was looked at.
    pub fn is_whole(&self) -> bool {
        self.missed.is_empty() && self.unseen_count == 0
    }

    /// Those that use it for a message, and those that were not looked at: they may too.
    pub fn named(&self) -> String {
        match (self.is_whole(), self.users.is_empty()) {
            (true, _) => busy::list(&self.users),
            (false, true) => format!("perhaps {}", self.missed()),
            (false, false) => {
                format!("{}, and perhaps {}", busy::list(&self.users), self.missed())
            }
        }
    }

    /// Those that were not looked at, for a message.
    pub fn missed(&self) -> String {
        let mut names: Vec<String> = self.missed.iter().map(ToString::to_string).collect();
        if self.unseen_count > 0 {
            names.push(format!("{} processes after them", self.unseen_count));
        }
        names.join(", ")
    }
}

/// The findings of the thread so far.
#[derive(Debug, Default)]
struct Progress {
    looked: Looked,
    /// The process that is looked at.
    at: Option<u32>,
    /// How many come after it.
    left: usize,
    /// The time that the thread has, once it has begun.
    patience: Option<Patience>,
}

fn locked(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks at these processes for at most `patience`, and the time that the look waits for a
/// processor. A process that holds the look up for longer ends it; its thread stays behind until
/// the kernel lets it go.
pub(super) fn look(
    scope: impl Scope + Send + 'static,
    processes: Vec<u32>,
    bounds: Bounds,
    patience: Duration,
) -> Looked {
    let progress = Arc::new(Mutex::new(Progress::default()));
    let (sender, ended) = mpsc::sync_channel(1);
    let shared = Arc::clone(&progress);
    let looking = thread::Builder::new().name("look".into()).spawn(move || {
        let patience = Patience::of_this_thread(patience);
        locked(&shared).patience = Some(patience);
        look_at(scope, &processes, (bounds, &patience), &shared);
        let _ = sender.send(());
    });
    if looking.is_ok() {
        let left = || locked(&progress).patience.map_or(patience, |patience| patience.left());
        while ended.recv_timeout(left() + LOOK_GRACE) == Err(RecvTimeoutError::Timeout) {
            if left().is_zero() {
                break;
            }
        }
    }
    let mut progress = locked(&progress);
    let mut looked = std::mem::take(&mut progress.looked);
    // The thread is still at it, or there was none.
    if let Some(pid) = progress.at {
        let name = name_of(pid);
        looked.missed.push(Missed { pid, name, reason: "the kernel does not list what it has" });
        looked.unseen_count = progress.left;
    } else if looking.is_err() {
        looked.unseen_count = 1;
    }
    looked
}

fn look_at(
    mut scope: impl Scope,
    processes: &[u32],
    (bounds, patience): (Bounds, &Patience),
    progress: &Mutex<Progress>,
) {
    for (index, &pid) in processes.iter().enumerate() {
        let left = processes.len() - index;
        if patience.is_over() {
            let mut progress = locked(progress);
            (progress.at, progress.looked.unseen_count) = (None, left);
            return;
        }
        {
            let mut progress = locked(progress);
            (progress.at, progress.left) = (Some(pid), left - 1);
        }
        let mut budget = Budget::new(&bounds);
        let uses = uses(pid, &mut scope, &mut budget);
        let user = (!uses.is_empty()).then(|| User::new(pid, uses));
        let user = user.filter(|user| scope.counts(user));
        let reason = budget.ended.filter(|_| fs::exists(format!("/proc/{pid}")).unwrap_or(true));
        let missed = reason.map(|reason| Missed { pid, name: name_of(pid), reason });
        let mut progress = locked(progress);
        progress.at = None;
        progress.looked.users.extend(user);
        progress.looked.missed.extend(missed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::{Child, Command, Stdio};

    /// As long as a test may take.
    const HANG: Duration = Duration::from_secs(120);

    /// Everything is a use; the process with this number does not let the look go on.
    struct Stuck(u32, mpsc::Receiver<()>);

    impl Scope for Stuck {
        fn has_file(&mut self, process: &Path, _link: &Path) -> bool {
            if process == Path::new(&format!("/proc/{}", self.0)) {
                let _ = self.1.recv();
            }
            true
        }

        fn has_mapping(&mut self, _: &Path, _: (u32, u32), _: &[u8]) -> bool {
            true
        }
    }

    fn sleeping(files: usize) -> Child {
        let files: String = (10..10 + files).map(|fd| format!("exec {fd}</dev/null;")).collect();
        let mut command = Command::new("bash");
        command.args(["-c", &format!("{files} echo; exec cat >/dev/null")]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("bash");
        let mut line = [0];
        let out = child.stdout.as_mut().expect("piped");
        std::io::Read::read_exact(out, &mut line).expect("ready");
        child
    }

    fn end(children: [Child; 2]) {
        for mut child in children {
            child.kill().and_then(|()| child.wait().map(drop)).expect("ended");
        }
    }

    #[test]
    fn a_process_that_cannot_be_listed_ends_the_look_and_is_named() {
        let children = [sleeping(0), sleeping(0)];
        let [first, stuck] = [0, 1].map(|at: usize| children[at].id());
        let (let_go, held) = mpsc::channel();
        let all = vec![first, stuck, stuck, first];
        let looked = look(Stuck(stuck, held), all, Bounds::default(), Duration::from_secs(8));
        drop(let_go);
        end(children);
        assert_eq!(looked.users.iter().map(|user| user.pid).collect::<Vec<_>>(), [first]);
        assert_eq!(looked.missed.first().map(|missed| missed.pid), Some(stuck));
        assert_eq!((looked.missed.len(), looked.unseen_count), (1, 2));
        assert!(looked.missed().ends_with("2 processes after them"), "{looked:?}");
    }

    #[test]
    fn a_process_with_too_many_files_is_named_and_the_others_are_seen() {
        let children = [sleeping(60), sleeping(0)];
        let [many, few] = [0, 1].map(|at: usize| children[at].id());
        let (_let_go, held) = mpsc::channel();
        let bounds = Bounds { things_max: 50, patience: HANG };
        let looked = look(Stuck(0, held), vec![many, few], bounds, HANG);
        end(children);
        assert_eq!(looked.users.iter().map(|user| user.pid).collect::<Vec<_>>(), [many, few]);
        let missed: Vec<u32> = looked.missed.iter().map(|missed| missed.pid).collect();
        assert_eq!((missed, looked.unseen_count), (vec![many], 0));
        assert!(looked.missed().contains("more open files and mappings than"), "{looked:?}");
        // A shell that becomes another program has either name.
        let (named, too_many) = (looked.named(), format!("(pid {many}: more open files"));
        assert!(named.contains(", and perhaps ") && named.contains(&too_many), "{named}");
        let named = Looked { users: Vec::new(), ..looked.clone() }.named();
        assert!(named.starts_with("perhaps ") && named.contains(&too_many), "{named}");
        assert_eq!(Looked::default().named(), "a process that cannot be seen from here");
        assert!(Looked::default().is_whole() && !looked.is_whole());
    }
}
