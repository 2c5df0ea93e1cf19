//! Caps of single processes, set over the control socket.

use crate::limits::{end, ended};
use crate::{Mounted, emulate, wait_for};
use iopace_daemon::api::CapChange;
use iopace_daemon::control::{Client, ClientError, serve};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;
use tokio::sync::oneshot;

/// Bytes per second.
const CAP: u64 = 1 << 20;

/// The control socket of a daemon, served until it goes.
struct Control {
    path: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    fn of(mounted: &Mounted) -> Control {
        let (daemon, path) = (mounted.daemon.clone(), mounted.folder.path().join("control"));
        let (stop, over) = oneshot::channel::<()>();
        let (daemon, at) = (daemon.expect("it runs"), path.clone());
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let ended = async move { over.await.unwrap_or_default() };
            let served = serve(Arc::clone(&daemon) as _, &at, ended);
            runtime.expect("a runtime").block_on(served).expect("served");
        });
        wait_for("the socket", || path.exists());
        Control { path, stop: Some(stop), thread: Some(thread) }
    }

    fn client(&self) -> Client {
        Client::new(&self.path)
    }

    fn cap(&self, pid: u32, bytes_s: Option<u64>) -> Result<Vec<(u32, u64)>, String> {
        let report = self.client().set_cap("below", &CapChange { pid, bytes_s });
        let report = report.map_err(|error| match error {
            ClientError::Refused { status, problem } => format!("{status} {}", problem.error),
            other => other.to_string(),
        })?;
        Ok(report.caps.iter().map(|cap| (cap.pid, cap.bytes_s)).collect())
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A program that begins when it is told to.
fn waiting(mounted: &Mounted, command: &str) -> Child {
    Command::new("sh")
        .args(["-c", &format!("read go; exec {command}")])
        .current_dir(mounted.folder.path())
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell")
}

fn go(child: &mut Child) {
    child.stdin.take().expect("piped").write_all(b"\n").expect("it reads");
}

#[test]
fn a_capped_process_is_held_to_its_rate_and_nobody_else() {
    for model in [None, Some("null")] {
        let Some(mounted) = Mounted::over(
            |_| {},
            |config| {
                if let Some(model) = model {
                    emulate(&mut config.mounts[0], model);
                }
            },
        ) else {
            return;
        };
        let control = Control::of(&mounted);
        let mut capped = waiting(&mounted, "dd if=/dev/zero of=at/capped bs=1M count=64");
        let pid = capped.id();
        assert_eq!(control.cap(pid, Some(CAP)), Ok(vec![(pid, CAP)]));
        go(&mut capped);
        let written = || fs::metadata(mounted.below("capped")).map_or(0, |found| found.len());
        // On an emulated disk the first chunks of a file, 1 MiB, may lie over each other: what lies
        // on dirty pages is not counted.
        wait_for("a beginning", || written() >= 2 * CAP);
        let (begin, before) = (Instant::now(), written());
        wait_for("two seconds of it", || written() >= before + 2 * CAP);
        // Another program of the same user and group writes as much meanwhile.
        let mut free = waiting(&mounted, "dd if=/dev/zero of=at/free bs=1M count=64");
        go(&mut free);
        wait_for("the end of the other one", || ended(&mut free));
        let (so_far, elapsed) = (written(), begin.elapsed());
        assert!(!ended(&mut capped), "a minute has not passed: {elapsed:?}");
        // Never faster, however fast the machine is: some portions and the lateness of a timer.
        let due = before + CAP * (elapsed.as_millis() as u64 + 100) / 1_000;
        assert!(so_far <= due, "{so_far} after {before}, in {elapsed:?}");
        let report = control.client().caps("below").expect("told");
        assert_eq!((&*report.policy, report.held, report.caps.len()), ("rate", true, 1));
        assert_eq!(report.caps[0].program, "dd");
        assert_eq!(control.cap(pid, None), Ok(Vec::new()), "lifted");
        wait_for("the end of the one that was capped", || ended(&mut capped));
        assert_eq!(written(), 64 << 20, "nothing is lost");
    }
}

#[test]
fn a_cap_is_for_a_process_that_runs_and_goes_with_it() {
    let Some(mounted) = Mounted::new(|_| {}) else { return };
    let control = Control::of(&mounted);
    let child = waiting(&mounted, "true");
    let pid = child.id();
    assert_eq!(control.cap(pid, Some(CAP)), Ok(vec![(pid, CAP)]));
    assert_eq!(control.cap(pid, Some(2 * CAP)), Ok(vec![(pid, 2 * CAP)]), "another one");
    let refused = |pid, bytes_s| control.cap(pid, bytes_s).expect_err("refused");
    assert_eq!(refused(pid, Some(0)), "400 a cap of 0 bytes per second would stop the process");
    assert!(refused(pid, Some(4_095)).starts_with("400 a cap of 4095 bytes per second is too low"));
    let counted = || mounted.device().status().engine.caps_count;
    assert_eq!(counted(), 1);
    end(child);
    // Without anybody who asks for them.
    wait_for("the end of its cap", || counted() == 0);
    assert_eq!(refused(pid, Some(CAP)), format!("404 there is no process {pid}"));
    assert!(control.client().caps("below").expect("told").caps.is_empty());
}
