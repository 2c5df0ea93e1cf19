//! The kernel asks in nobody's name, which counts as root's, for the end of what a user had: no
//! thread of root asks the user's file system for anything then.

use super::stopped::Opener;
use super::{Programs, STOPPED, as_user};
use crate::{Mounted, wait_for};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;

/// Files that are closed, one after the other: fast enough that threads which close them have not
/// ended when the next one comes.
const CLOSES: usize = 1000;

/// Files that are forgotten.
const FORGOTTEN: usize = 20;

fn closes(mounted: &Mounted, served: &Opener) {
    let text = format!("n=0; while [ $n -lt {CLOSES} ]; do : < \"$1\"; n=$((n+1)); done");
    let path = mounted.at("stopped/f1");
    let words = ["-c".as_ref(), text.as_ref(), "sh".as_ref(), path.as_os_str()];
    let mut closing = Programs(vec![as_user(STOPPED, "sh", &words)]);
    closing.wait("a program that closes files");
    wait_for("all closes", || served.asked.closes.load(SeqCst) >= CLOSES);
    let by_receivers = served.asked.closes_by_receivers.load(SeqCst);
    assert_eq!(by_receivers, 0, "of {CLOSES} closes, by threads that receive requests");
}

fn forgets(mounted: &Mounted, served: &Opener) {
    // The kernel looks the name up, and asks for nothing else of what is no link.
    let look = || {
        for number in 0..FORGOTTEN {
            let found = fs::read_link(mounted.at(&format!("stopped/g{number}")));
            let error = found.expect_err("it is no link");
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "g{number}: {error}");
        }
    };
    look();
    served.asked.is_renewed.store(true, SeqCst);
    // Names are kept for a second above.
    wait_for("files to be forgotten", || {
        look();
        served.asked.old_forgotten.load(SeqCst) >= FORGOTTEN
    });
    assert_eq!(served.asked.old_looks.load(SeqCst), 0, "looks at files that are forgotten");
}

#[test]
fn nobody_asks_for_the_end_of_what_a_stranger_had() {
    let mut served = None;
    let prepare = |below: &Path| {
        let folder = below.parent().expect("a folder");
        fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("set");
        fs::create_dir(below.join("stopped")).expect("made");
        chown(below.join("stopped"), Some(STOPPED), Some(STOPPED)).expect("given");
        served = Some(Opener::mount(&below.join("stopped")));
    };
    let Some(mounted) = Mounted::over(prepare, |_| {}) else { return };
    let served = served.expect("prepared");
    served.open();
    closes(&mounted, &served);
    forgets(&mounted, &served);
    drop(mounted);
    drop(served);
}
