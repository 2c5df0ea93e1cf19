//! A terminal with a program in it: a pseudo terminal, and what is to be seen on it.

#![allow(missing_docs, reason = "for the tests")]
#![allow(dead_code, reason = "shared by the tests; each uses a part")]

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

/// A test that waits longer than this hangs, and fails.
const HANG: Duration = Duration::from_secs(60);

/// How long nothing is written until it is looked at.
const STEP: Duration = Duration::from_millis(50);

/// Pieces of output that wait to be read.
const PIECES_MAX: usize = 64;

/// The terminal; the program is killed when dropped.
pub struct Terminal {
    child: Child,
    keys: File,
    /// The program's end, kept open for its modes.
    end: OwnedFd,
    pieces: Receiver<Vec<u8>>,
    screen: vt100::Parser,
}

impl Terminal {
    /// Starts a program in a terminal of so many columns and lines.
    pub fn start(mut command: Command, size: (u16, u16)) -> Terminal {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags).expect("a pseudo terminal");
        grantpt(&ours).and_then(|()| unlockpt(&ours)).expect("ours");
        let name = ptsname(&ours, Vec::new()).expect("a name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let end = open(name, flags, Mode::empty()).expect("the other end");
        let (keys, mut output) = (File::from(ours.try_clone().expect("cloned")), File::from(ours));
        set_size(&keys, size);
        let clone = || end.try_clone().expect("cloned");
        command.stdin(clone()).stdout(clone()).stderr(clone());
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR").env_remove("COLORTERM");
        let child = command.spawn().expect("started");
        let (sender, pieces) = sync_channel(PIECES_MAX);
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut piece) {
                if sender.send(piece[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let screen = vt100::Parser::new(cells(size.1), cells(size.0), 0);
        Terminal { child, keys, end, pieces, screen }
    }

    /// Presses keys.
    pub fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("pressed");
    }

    /// Reads until this text is to be seen.
    pub fn wait_for(&mut self, text: &str) {
        while !self.picture().contains(text) {
            let piece = self.pieces.recv_timeout(HANG);
            let piece = piece.unwrap_or_else(|_| panic!("no '{text}':\n{}", self.picture()));
            self.screen.process(&piece);
        }
    }

    /// What is to be seen.
    pub fn picture(&self) -> String {
        self.screen.screen().contents()
    }

    /// Waits until the program has taken it: keys come unread, and the screen is another.
    #[track_caller]
    pub fn wait_until_taken(&mut self) {
        self.wait_until(true);
    }

    /// Waits until the terminal is as it was.
    #[track_caller]
    pub fn wait_until_given_back(&mut self) {
        self.wait_until(false);
    }

    /// Modes are the kernel's and change at once; what is written comes when it is read.
    #[track_caller]
    fn wait_until(&mut self, is_taken: bool) {
        for _ in 0..HANG.as_millis() / STEP.as_millis() {
            while let Ok(piece) = self.pieces.recv_timeout(STEP) {
                self.screen.process(&piece);
            }
            let modes = tcgetattr(&self.end).expect("a terminal").local_modes;
            let is_raw = !modes.contains(LocalModes::ICANON | LocalModes::ECHO);
            let screen = self.screen.screen();
            if [is_raw, screen.alternate_screen(), screen.hide_cursor()] == [is_taken; 3] {
                return;
            }
        }
        panic!("taken: {is_taken} does not come, or half of it:\n{}", self.picture());
    }

    /// Changes its size; the program is told by a signal.
    pub fn size(&mut self, size: (u16, u16)) {
        set_size(&self.keys, size);
        self.screen.screen_mut().set_size(cells(size.1), cells(size.0));
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("signalled");
    }

    /// Waits until the program has stopped itself.
    pub fn wait_until_stopped(&self) {
        let pid = Pid::from_child(&self.child);
        let status = waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED).expect("a child");
        assert!(status.is_some_and(|status| status.stopped()), "it has ended");
    }

    /// Waits for the end.
    pub fn end(&mut self) -> ExitStatus {
        self.child.wait().expect("waited")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cells(count: u16) -> NonZero<u16> {
    NonZero::new(count).expect("a size")
}

fn set_size(terminal: &File, (columns, lines): (u16, u16)) {
    let size = Winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("set");
}
