//! Acting for callers, also where groups cannot be set.

use super::*;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;

#[test]
fn a_thread_acts_for_a_caller_and_is_itself_again() {
    if !may_act_for_others() {
        eprintln!("skipped: may not act for others");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let thread = std::thread::spawn(move || {
        let theirs = folder.path().join("theirs");
        // Number 0 is no thread: nothing is known of this caller but what the kernel says.
        let caller = Caller { pid: 0, uid: 1234, gid: 2345 };
        prepare_thread().unwrap();
        set_umask(0o027);
        act_for(caller, &[], || std::fs::write(&theirs, "")).unwrap();
        let made = std::fs::metadata(&theirs).unwrap();
        assert_eq!((made.uid(), made.gid(), made.mode() & 0o777), (1234, 2345, 0o640));
        let nobody = Caller { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let refused = act_for(nobody, &[], || Ok(())).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
        let own_file = folder.path().join("own");
        std::fs::write(&own_file, "").unwrap();
        assert_eq!(std::fs::metadata(&own_file).unwrap().uid(), own().0);
        let chown = || std::os::unix::fs::chown(&own_file, Some(1234), None);
        assert_eq!(act_for(caller, &[], chown).unwrap_err().raw_os_error(), Some(libc::EPERM));
        // This very thread is root with all that this process may.
        let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        act_for(Caller { pid: tid, uid: 0, gid: 0 }, &[], chown).unwrap();
        // It is not user 1234, so its capabilities are not taken for those of that user.
        let mixed = Caller { pid: tid, ..caller };
        let chown = || std::os::unix::fs::chown(&own_file, Some(0), None);
        assert_eq!(act_for(mixed, &[], chown).unwrap_err().raw_os_error(), Some(libc::EPERM));
        let sets = rustix::thread::capabilities(None).unwrap();
        assert_eq!(sets, prepare_thread().unwrap().sets);
        let groups = rustix::process::getgroups().unwrap();
        assert_eq!(groups, prepare_thread().unwrap().groups[..]);
    });
    thread.join().unwrap();
}

fn own_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()
}

/// In a user namespace that denies `setgroups`, with a further group.
fn act_with_groups_that_stay() {
    let groups = rustix::process::getgroups().unwrap();
    assert!(groups.len() > 1, "{groups:?}");
    let (say, said) = channel();
    let (end, ended) = channel::<()>();
    // A caller with the same user and groups, without capabilities.
    let caller = thread::spawn(move || {
        let sets = rustix::thread::capabilities(None).unwrap();
        let none = CapabilitySets { effective: CapabilitySet::empty(), ..sets };
        rustix::thread::set_capabilities(None, none).unwrap();
        say.send(own_thread()).unwrap();
        let _ = ended.recv();
    });
    let pid = said.recv().unwrap();
    let daemon = thread::spawn(move || {
        let act = |caller| act_for(caller, &[], || Ok(rustix::thread::capabilities(None)?));
        let acted = act(Caller { pid, uid: 0, gid: 0 }).unwrap();
        assert!((acted.effective & FILES).is_empty(), "{acted:?}");
        // The groups are more than this caller is known to have.
        let refused = act(Caller { pid: 0, uid: 1, gid: 1 }).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
        let sets = rustix::thread::capabilities(None).unwrap();
        assert_eq!(sets, prepare_thread().unwrap().sets);
    });
    let result = daemon.join();
    drop(end);
    caller.join().unwrap();
    result.unwrap();
}

#[test]
fn groups_that_cannot_be_set_stay() {
    const INSIDE: &str = "IOPACE_TEST_GROUPS_STAY";
    const NAME: &str = "fuse::tree::credentials::tests::groups_that_cannot_be_set_stay";
    if std::env::var_os(INSIDE).is_some() {
        return act_with_groups_that_stay();
    }
    let can = || Command::new("unshare").args(["-Ur", "true"]).status();
    if !may_act_for_others() || !can().is_ok_and(|status| status.success()) {
        eprintln!("skipped: needs root, unshare(1) and user namespaces");
        return;
    }
    let mut inside = Command::new("unshare");
    inside.arg("-Ur").arg(std::env::current_exe().unwrap()).args(["--exact", NAME, "--nocapture"]);
    // SAFETY: between fork and exec only one system call is made, with constant numbers.
    unsafe {
        inside.pre_exec(|| match libc::setgroups(2, [0, 4].as_ptr()) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    let output = inside.env(INSIDE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{errors}");
}
