//! The thread that looks after a mount: callers that are being killed, files that are kept open for
//! nothing.

use super::file_spaces::FileSpaces;
use super::inflight_operations::{Asker, InflightOperations};
use super::pending_replies::PendingReplies;
use crate::clock;
use crate::device::Device;
use crate::process::{Kernel, Proc};
use iopace_core::time::Nanos;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often it looks at all that wait. The kernel tells of a caller's first signal only, and of
/// none where it asks in nobody's name (reading ahead, asynchronous I/O): such a program, which
/// waits for a disk that does not answer, is answered at the third look, within some 1.5 s, and so
/// is one of whose request it is not known what it changes. Any other is at once.
const INTERVAL: Duration = Duration::from_millis(500);
const EVERY: Nanos = Nanos::from_millis(500);

/// After a look at who was interrupted the next one waits so long: many signals do not keep it
/// busy.
const BETWEEN: Duration = Duration::from_millis(5);

/// The bit of `SIGKILL` in the masks of `/proc/PID/status`. Whatever signal ends a program, the
/// kernel turns it into this one for each of its threads.
const KILL_BIT: u64 = 1 << (libc::SIGKILL - 1);

/// What the thread is woken for.
#[derive(Debug, Default)]
struct Bell {
    state: Mutex<Rung>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rung {
    is_over: bool,
    /// Somebody was interrupted since the last look at those.
    is_interrupted: bool,
}

impl Bell {
    fn ring(&self, ring: impl FnOnce(&mut Rung)) {
        ring(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Waits for at most so long, and takes note of interrupts.
    fn wait(&self, time: Duration) -> Rung {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_quiet = |state: &mut Rung| !state.is_over && !state.is_interrupted;
        let waited = self.changed.wait_timeout_while(state, time, is_quiet);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let rung = *state;
        state.is_interrupted = false;
        rung
    }
}

/// The thread.
#[derive(Debug)]
pub(crate) struct Watch {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts it. `sweep` is called about once a second.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(
        (pending, inflight): (Arc<PendingReplies>, Arc<InflightOperations>),
        spaces: Option<Arc<FileSpaces>>,
        sweep: impl Fn() + Send + 'static,
        device: Weak<dyn Device>,
    ) -> io::Result<Watch> {
        let bell = Arc::<Bell>::default();
        let heard = Arc::clone(&bell);
        let run = move || {
            let (mut is_odd, mut next) = (false, clock::now() + EVERY);
            loop {
                let Rung { is_over, is_interrupted } =
                    heard.wait(clock::until(next).unwrap_or(INTERVAL));
                if is_over {
                    return;
                }
                if is_interrupted {
                    let count = pending.look_at_interrupted(is_killed)
                        + inflight.look_at_interrupted(is_killed);
                    given_up(count);
                    thread::sleep(BETWEEN);
                }
                if clock::now() < next {
                    continue;
                }
                next = clock::now() + EVERY;
                given_up(pending.look(clock::now(), is_killed, is_gone) + inflight.look(is_killed));
                if let (Some(spaces), Some(device)) = (&spaces, device.upgrade()) {
                    spaces.sweep(|extents| device.are_clean(extents));
                }
                is_odd = !is_odd;
                if is_odd {
                    sweep();
                }
            }
        };
        let thread = thread::Builder::new().name("watch".into()).spawn(run)?;
        Ok(Watch { bell, thread: Some(thread) })
    }

    /// To be called when the kernel has said that a caller has a signal pending.
    pub(crate) fn on_interrupt(&self) -> impl Fn() + Send + Sync + 'static {
        let bell = Arc::clone(&self.bell);
        move || bell.ring(|rung| rung.is_interrupted = true)
    }
}

fn given_up(count: usize) {
    if count > 0 {
        tracing::info!(count, "requests of killed programs were given up");
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.bell.ring(|rung| rung.is_over = true);
        if let Some(thread) =
            self.thread.take().filter(|t| t.thread().id() != thread::current().id())
        {
            let _ = thread.join();
        }
    }
}

/// Whether a thread is being killed and waits only for us. One that cannot be looked at (`hidepid`)
/// counts as alive: an error that nobody has caused is worse than a program that ends late.
fn is_killed(from: Asker) -> bool {
    let status = || std::fs::read_to_string(format!("/proc/{}/status", from.pid));
    from.pid != 0 && status().is_ok_and(|status| has_kill(&status)) && !is_another(from)
}

/// Whether a thread is gone. A program can be alive all the same, and wait for what that thread has
/// begun. Asked of the kernel itself, as `/proc` may hide the threads of others.
fn is_gone(from: Asker) -> bool {
    let Some(pid) = i32::try_from(from.pid).ok().and_then(Pid::from_raw) else { return false };
    test_kill_process(pid) == Err(Errno::SRCH) || is_another(from)
}

/// Whether the thread of this number was started after the request: who asked is gone, and may wait
/// for it all the same (asynchronous I/O).
fn is_another(from: Asker) -> bool {
    let tick = Nanos::from_secs(1).as_nanos() / rustix::param::clock_ticks_per_second().max(1);
    let start = Kernel.stat(from.pid).map(|stat| stat.start);
    start.is_some_and(|start| start > from.since.as_nanos() / tick.max(1))
}

fn has_kill(status: &str) -> bool {
    let masks = status
        .lines()
        .filter_map(|line| line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:")));
    let mut bits = masks.filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    bits.any(|mask| mask & KILL_BIT != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn a_pending_kill_is_seen_in_either_mask() {
        let status = |own: &str, shared: &str| {
            format!("Name:\tdd\nSigPnd:\t{own}\nShdPnd:\t{shared}\nSigBlk:\t0000000000000100\n")
        };
        let none = "0000000000000000";
        assert!(!has_kill(&status(none, none)));
        assert!(has_kill(&status("0000000000000100", none)));
        assert!(has_kill(&status(none, "0000000000004100")));
        assert!(!has_kill(&status(none, "0000000000004000")));
        let now = Asker::now;
        assert!(!has_kill("garbage") && !is_killed(now(0)));
        assert!(!is_killed(now(std::process::id())));
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        child.wait().expect("it ends");
        assert!(is_gone(now(child.id())) && !is_killed(now(child.id())));
        let own = now(std::process::id());
        assert!(!is_gone(now(0)) && !is_gone(now(u32::MAX)) && !is_gone(own));
        assert!(!is_gone(now(1)), "also of another user's");
        let (sender, id) = std::sync::mpsc::sync_channel(1);
        let ended = std::thread::spawn(move || {
            let own = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
            sender.send(own).expect("it is heard");
            own
        });
        let id = id.recv().expect("a thread");
        assert_eq!(ended.join().expect("it ends"), id);
        // The kernel lets a thread go some time after it was joined.
        while !is_gone(now(id)) {
            std::thread::yield_now();
        }
    }

    /// A process that is ended with the test.
    struct Started(std::process::Child);

    impl Drop for Started {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_number_that_another_thread_has_by_now_says_nothing_of_who_asked() {
        let child =
            Started(std::process::Command::new("cat").stdin(Stdio::piped()).spawn().unwrap());
        let (before, now) =
            (Asker { pid: child.0.id(), since: Nanos(0) }, Asker::now(child.0.id()));
        assert!(is_another(before) && is_gone(before) && !is_killed(before));
        assert!(!is_another(now) && !is_gone(now));
    }
}
