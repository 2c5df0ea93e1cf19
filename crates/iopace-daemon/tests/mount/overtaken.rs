//! What was given up overtakes nobody: below, one call is kept waiting, and what was asked for
//! later would go first if we let it.

use crate::gate::{Gate, Keep, SIZE};
use crate::{Mounted, wait_for};
use iopace_daemon::config::DaemonConfig;
use iopace_fuse::BackgroundSession;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A mount of a directory in which the gate is mounted.
struct Gated {
    gate: Gate,
    mounted: Mounted,
    _session: BackgroundSession,
}

impl Gated {
    fn new() -> Option<Gated> {
        Gated::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut DaemonConfig)) -> Option<Gated> {
        let gate = Gate::new();
        let mut session = None;
        let prepare = |below: &Path| {
            let at = below.join("gate");
            fs::create_dir(&at).expect("made");
            session = Some(gate.mount(&at));
        };
        let mounted = Mounted::over(prepare, change)?;
        Some(Gated { gate, mounted, _session: session.expect("it is prepared") })
    }

    /// How many programs wait for an answer, those that were given up at the disk included.
    fn waiting(&self) -> usize {
        self.mounted.daemon().mounts().reports()[0].waiting_count
    }

    /// Runs a program until the gate keeps it waiting, and kills it: it is given up.
    fn give_up(&self, keep: Keep, command: &str) {
        self.gate.keep(keep);
        self.kill(command, self.mounted.run_in("/", command));
    }

    /// The same of one that runs.
    fn kill(&self, command: &str, mut child: Child) {
        wait_for("a call at the gate", || self.gate.kept_count() > 0);
        assert!(child.try_wait().expect("its state").is_none(), "{command}: it waits");
        child.kill().expect("killed");
        wait_for(command, || child.try_wait().expect("its state").is_some());
        // Only that call is kept waiting; all that come later are answered at once.
        self.gate.keep(Keep::Nothing);
        assert!(self.gate.kept_count() > 0, "it may still come to pass");
    }

    /// Runs a program until it waits in us.
    fn waits(&self, command: &str) -> Child {
        let before = self.waiting();
        let mut child = self.mounted.run_in("/", command);
        wait_for("the next one", || {
            self.waiting() > before || child.try_wait().expect("its state").is_some()
        });
        let state = child.try_wait().expect("its state");
        assert!(state.is_none(), "{command}: it has overtaken one that was given up: {state:?}");
        child
    }

    /// Opens the gate and waits until the program has ended.
    fn open(&self, mut child: Child) {
        self.gate.open();
        wait_for("the end of the next one", || child.try_wait().expect("its state").is_some());
    }
}

impl Drop for Gated {
    fn drop(&mut self) {
        self.gate.open();
        // What is mounted over the directory hides the gate.
        if let Some(daemon) = self.mounted.daemon.take() {
            daemon.shutdown();
        }
        let lazily = rustix::mount::UnmountFlags::DETACH;
        let _ = rustix::mount::unmount(self.mounted.below("gate"), lazily);
    }
}

/// By the thread that received it.
#[test]
fn a_change_of_a_file_that_was_given_up() {
    let Some(gated) = Gated::new() else { return };
    gated.give_up(Keep::LookWhenOpened, "truncate -s 5 at/gate/target");
    let next = gated.waits("truncate -s 100 at/gate/target");
    gated.open(next);
    assert_eq!(gated.gate.target().len(), 100);
}

/// By a request of the device, which others carry out.
#[test]
fn a_copy_that_was_given_up() {
    let Some(gated) = Gated::new() else { return };
    gated.give_up(Keep::Reads, "cp at/gate/source at/gate/target");
    let write = "dd if=/dev/zero of=at/gate/target bs=64k count=1 conv=notrunc";
    let next = gated.waits(write);
    gated.open(next);
    assert!(gated.gate.target() == [0; SIZE], "the copy came after what was written since");
}

/// Who waits for that is looked after as well, and more of them than there are threads.
#[test]
fn whoever_waits_for_what_was_given_up() {
    let Some(gated) = Gated::new() else { return };
    gated.give_up(Keep::LookWhenOpened, &format!("truncate -s {SIZE} at/gate/target"));
    // Direct writes within a file: the kernel lets all of them come to us.
    let write = "dd if=/dev/zero of=at/gate/target bs=4k count=1 oflag=direct conv=notrunc";
    let all: Vec<Child> = (0..16).map(|_| gated.waits(write)).collect();
    // Nobody else is held up by them.
    fs::write(gated.mounted.at("other"), "other").expect("written");
    assert_eq!(fs::read(gated.mounted.at("other")).expect("read"), b"other");
    for mut child in all {
        child.kill().expect("killed");
        wait_for("its end", || child.try_wait().expect("its state").is_some());
    }
    assert_eq!(gated.waiting(), 0);
    // None of them is carried out after all.
    let next = gated.waits("dd if=at/gate/source of=at/gate/target bs=64k conv=notrunc");
    gated.open(next);
    assert!(gated.gate.target() == [7; SIZE]);
}

/// Of a copy the file's privileges go first, if it is not root's; that is looked after as well.
#[test]
fn a_copy_that_takes_privileges_away() {
    // Over itself, the kernel knows the attributes and asks for none.
    let Some(gated) = Gated::with(|config| config.mounts[0].mountpoint = None) else { return };
    let at = |name: &str| gated.mounted.below(&format!("gate/{name}"));
    let source = File::open(at("source")).expect("opens");
    let target = File::options().write(true).open(at("target")).expect("opens");
    let copy = "import os; os.setuid(65534); os.copy_file_range(0, 1, 4096)";
    gated.gate.keep(Keep::Look);
    let child = Command::new("python3")
        .args(["-c", copy])
        .stdin(source)
        .stdout(target)
        .stderr(Stdio::null())
        .spawn();
    let Ok(child) = child else {
        println!("skipped: this needs python3");
        return;
    };
    gated.kill("copy_file_range", child);
    let next = gated.waits("truncate -s 100 below/gate/target");
    gated.open(next);
    assert_eq!(gated.gate.target().len(), 100);
}
