//! Becoming a daemon: the command starts itself anew in a session of its own, and waits until that
//! one says that all is mounted, or why not.
//!
//! The two are joined by a pipe, the daemon's standard output. What comes over it before it is
//! closed is first any number of lines that begin with `N`, to be shown at once; then one letter
//! and a text: `R` and what to print, or `F`, a digit (the exit status) and the message. Nothing at
//! all means that the daemon is gone.

use crate::output::{Failure, note};
use iopace_daemon::config::Notes;
use iopace_daemon::runtime_files;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::setsid;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Says to the new process that it is the daemon, and where its log goes.
const DAEMON: &str = "IOPACE_MOUNT_DAEMON_LOG";

/// How much of a log is shown when a daemon is gone without a word.
const LOG_SHOWN: usize = 2_000;

/// The daemon's view of the command in front.
#[derive(Debug)]
pub struct Front {
    log: PathBuf,
}

impl Front {
    /// The command in front, if this process is the daemon.
    pub fn found() -> Option<Front> {
        let log = PathBuf::from(env::var_os(DAEMON)?);
        // Not the leader of a group as yet, being started by another: this cannot fail.
        let _ = setsid();
        Some(Front { log })
    }

    /// Where the log goes.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The listener that shows news at once.
    pub fn notes(&self) -> Notes {
        Notes::to(|text| match text {
            "" => is_heard(),
            text => say(&format!("N{text}\n")).is_ok(),
        })
    }

    /// Says why nothing is mounted. The command in front takes the log away then; where that is
    /// gone (Ctrl-C), nobody else does.
    pub fn tell(&self, failure: Failure) -> Failure {
        if say(&format!("F{}{}", failure.status, failure.message)).is_err() {
            let _ = fs::remove_file(&self.log);
        }
        failure
    }

    /// Serves; what is served is given the means to say that all is ready.
    pub fn run(
        self,
        serve: impl FnOnce(&mut dyn FnMut(&str) -> Result<(), Failure>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut is_ready = false;
        let served = serve(&mut |text| {
            // Nobody waits any more: who pressed Ctrl-C does not want a mount.
            let told = say(&format!("R{text}")).and_then(|()| quiet());
            told.map_err(|_| Failure::new("the command that asked for the mount is gone"))?;
            is_ready = true;
            super::ready();
            Ok(())
        });
        match served {
            Err(failure) if !is_ready => Err(self.tell(failure)),
            served => served,
        }
    }
}

fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// Whether the other end of the pipe is open still.
fn is_heard() -> bool {
    let out = io::stdout();
    let mut asked = [PollFd::new(&out, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    !poll(&mut asked, Some(&now)).is_ok_and(|_| asked[0].revents().contains(PollFlags::ERR))
}

/// Closes the pipe: from here on nobody listens.
///
/// # Errors
/// There is no `/dev/null`.
pub fn quiet() -> io::Result<()> {
    let nowhere = File::options().write(true).open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdout(&nowhere)?)
}

/// Opens the log of a daemon anew and locks it for as long as the daemon has it open. If another
/// daemon has it, its name gets our number.
fn open_log(path: &Path) -> Result<(File, PathBuf), Failure> {
    let failed = |error: io::Error| {
        Failure::new(format!(
            "the log {} cannot be written: {error}; name another with --log, or say --foreground",
            path.display()
        ))
    };
    let ours = path.with_extension(format!("{}.log", std::process::id()));
    for path in [path, &ours] {
        let file = runtime_files::open_log(path).map_err(failed)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK) {
            file.set_len(0).map_err(failed)?;
            return Ok((file, path.to_owned()));
        }
    }
    Err(failed(io::Error::from(io::ErrorKind::ResourceBusy)))
}

/// Starts the daemon with these words of the command line, and waits until all is mounted: what it
/// says then.
///
/// # Errors
/// What the daemon says, or that it is gone.
pub fn start(log: &Path, words: Vec<OsString>) -> Result<String, Failure> {
    let (file, log) = open_log(log)?;
    let (log, shown) = (log.as_path(), log.display());
    let program = env::current_exe();
    let child = program.and_then(|program| {
        Command::new(program)
            // A copy or a hard link may be called 'mount.iopace'.
            .arg0("iopace")
            .args(words)
            .env(DAEMON, log)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
    });
    let mut child = child.map_err(|error| {
        let _ = fs::remove_file(log);
        Failure::new(format!("no process for the daemon: {error}"))
    })?;
    let mut said = Vec::new();
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    while out.fill_buf().is_ok_and(|text| text.first() == Some(&b'N')) {
        let mut line = Vec::new();
        let _ = out.by_ref().take(1 << 20).read_until(b'\n', &mut line);
        note(format_args!("{}", String::from_utf8_lossy(&line[1..]).trim_end()));
    }
    // As much as is ever said; a daemon that says more is none of ours.
    let _ = out.take(1 << 20).read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said).into_owned();
    if let Some(text) = said.strip_prefix('R') {
        return Ok(text.to_owned());
    }
    let ended = child.wait();
    let failed = said.strip_prefix('F').and_then(|text| text.split_at_checked(1));
    if let Some((status, message)) = failed {
        // It stands here, so the log need not keep it.
        let _ = fs::remove_file(log);
        return Err(Failure { message: message.into(), status: status.parse().unwrap_or(1) });
    }
    let ended = ended.map_or("gone".into(), |status| status.to_string());
    let text = fs::read_to_string(log).unwrap_or_default();
    let from = text.len().saturating_sub(LOG_SHOWN);
    let last = text.get(from..).unwrap_or_default();
    Err(Failure::new(format!(
        "the daemon ended at its start ({ended}); its log {shown} ends:\n{last}"
    )))
}
