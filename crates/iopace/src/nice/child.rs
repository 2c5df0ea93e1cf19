//! The program as a child: started with a class, signalled, waited for.

use crate::output::Failure;
use iopace_core::group::Class;
use iopace_daemon::ioprio;
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpgrp, pidfd_open, pidfd_send_signal, waitid,
};
use rustix::termios::tcgetpgrp;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

/// Signals that are passed on.
const PASSED_ON: [(i32, Signal); 6] = [
    (SIGHUP, Signal::HUP),
    (SIGINT, Signal::INT),
    (SIGQUIT, Signal::QUIT),
    (SIGTERM, Signal::TERM),
    (SIGUSR1, Signal::USR1),
    (SIGUSR2, Signal::USR2),
];

/// Those that a terminal sends to all processes of the foreground itself.
const OF_TERMINAL: [i32; 2] = [SIGINT, SIGQUIT];

/// The program, running or ended.
pub(super) struct Program {
    child: Child,
    ended: Receiver<()>,
}

impl Program {
    /// Starts it with a class, on our standard streams, in our process group. Signals that would
    /// end us are its own from here on.
    ///
    /// # Errors
    /// It cannot be run: exit status 127 if there is none, 126 else.
    pub(super) fn start(words: &[OsString], class: Class) -> Result<Program, Failure> {
        // Before it is there: none is lost meanwhile.
        let numbers = PASSED_ON.into_iter().map(|(number, _)| number);
        let signals = Signals::new(numbers.filter(|number| !is_ignored(*number)));
        let signals = signals.map_err(failed)?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        let before = ioprio::get(0).map_err(failed)?;
        ioprio::set(0, class.into()).map_err(failed)?;
        let spawned = command.spawn();
        // Back to that is always allowed.
        let _ = ioprio::set(0, before);
        let mut child = spawned.map_err(|error| cannot_run(&words[0], &error))?;
        let pid = Pid::from_child(&child);
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => Arc::new(handle),
            Err(error) => {
                let _ = child.kill().and_then(|()| child.wait());
                return Err(failed(error.into()));
            }
        };
        pass_on(signals, Arc::clone(&handle));
        let (sender, ended) = sync_channel(1);
        thread::spawn(move || {
            // It stays a zombie: what it has moved can be seen then.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while waitid(WaitId::PidFd(handle.as_fd()), options)
                .is_err_and(|error| error == Errno::INTR)
            {}
            let _ = sender.send(());
        });
        Ok(Program { child, ended })
    }

    /// Its number.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Says when it has ended. It is waited for afterwards.
    pub(super) fn ended(&self) -> &Receiver<()> {
        &self.ended
    }

    /// Waits for its end and says how it ended, as a shell does.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub(super) fn status(mut self) -> Result<u8, Failure> {
        Ok(status_of(self.child.wait().map_err(failed)?))
    }
}

fn failed(error: io::Error) -> Failure {
    super::failed(error)
}

/// The exit status, or 128 and the number of the signal that ended it.
fn status_of(status: ExitStatus) -> u8 {
    let number = status.code().or(status.signal().map(|signal| 128 + signal));
    number.and_then(|number| u8::try_from(number).ok()).unwrap_or(super::FAILED)
}

fn cannot_run(program: &OsString, error: &io::Error) -> Failure {
    let message = format!("{}: cannot be run: {error}", program.display());
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    Failure { message, status: if is_missing { 127 } else { 126 } }
}

/// Whether we were started with a signal ignored, as by nohup(1), or in the background of a shell.
/// It stays ignored then, for the program as well.
pub(super) fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    is_in_set(&status, signal)
}

fn is_in_set(status: &str, signal: i32) -> bool {
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let set = set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    set & (1 << (signal - 1)) != 0
}

/// Passes signals on for as long as we live. A handle names the very process: its number may be
/// another's by now.
fn pass_on(mut signals: Signals, child: Arc<OwnedFd>) {
    thread::spawn(move || {
        for number in signals.forever() {
            if OF_TERMINAL.contains(&number) && is_in_foreground() {
                continue;
            }
            if let Some((_, signal)) = PASSED_ON.iter().find(|(known, _)| *known == number) {
                let _ = pidfd_send_signal(child.as_fd(), *signal);
            }
        }
    });
}

/// Whether a terminal sends its signals to us and to the program.
fn is_in_foreground() -> bool {
    let terminal = File::open("/dev/tty");
    terminal.is_ok_and(|terminal| tcgetpgrp(terminal) == Ok(getpgrp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_those_of_the_set() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000003\nSigCgt:\tffff\n";
        assert!(is_in_set(status, SIGHUP) && is_in_set(status, SIGINT));
        assert!(!is_in_set(status, SIGTERM) && !is_in_set("", SIGHUP));
    }

    #[test]
    fn a_program_ends_as_a_shell_has_it() {
        let ran = |script: &str| {
            let words = ["sh", "-c", script].map(OsString::from);
            let program = Program::start(&words, Class::Idle).expect("started");
            program.ended().recv().expect("ended");
            program.status().expect("waited for")
        };
        assert_eq!((ran("exit 0"), ran("exit 7"), ran("kill -TERM $$")), (0, 7, 143));
        let missing = ["no-such-program-at-all".into()];
        let failure = Program::start(&missing, Class::Idle).err().expect("missing");
        assert_eq!(failure.status, 127);
        let failure =
            Program::start(&["/etc/passwd".into()], Class::Idle).err().expect("no program");
        assert_eq!(failure.status, 126);
    }
}
