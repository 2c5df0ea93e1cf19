//! Acting for a caller: what it creates is to be its own.
//!
//! Linux keeps the user that a thread acts as on file systems (`fsuid`), its capabilities, its
//! umask and its working directory per thread; the last two once `unshare(CLONE_FS)` was called.

use super::super::data::Caller;
use super::inode::descriptors;
use rustix::fs::Mode;
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::cell::Cell;
use std::io;
use std::sync::OnceLock;

thread_local! {
    /// The capabilities of this thread, once it is prepared.
    static PREPARED: Cell<Option<CapabilitySets>> = const { Cell::new(None) };

    /// Its umask, once it was set.
    static UMASK: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Gives this thread a umask of its own and puts it into the folder of descriptors; it also
/// respects quotas from then on.
///
/// # Errors
///
/// The system refuses; nothing then is done for anybody.
pub(super) fn prepare_thread() -> io::Result<CapabilitySets> {
    if let Some(sets) = PREPARED.get() {
        return Ok(sets);
    }
    // SAFETY: only the working directory, root and umask of this thread become its own; it shares
    // no memory or descriptors less than before.
    if unsafe { libc::unshare(libc::CLONE_FS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    rustix::process::fchdir(descriptors()?)?;
    let sets = respect_quotas()?;
    PREPARED.set(Some(sets));
    Ok(sets)
}

/// Has this thread give up the right to pass the quotas of those whose files it writes
/// (`CAP_SYS_RESOURCE`). Every thread that writes data is to call it once; those that the kernel's
/// requests come to have done so when they first created something.
///
/// # Errors
///
/// The system refuses.
pub(crate) fn respect_quotas() -> io::Result<CapabilitySets> {
    let mut sets = rustix::thread::capabilities(None)?;
    if sets.effective.contains(CapabilitySet::SYS_RESOURCE) {
        sets.effective.remove(CapabilitySet::SYS_RESOURCE);
        rustix::thread::set_capabilities(None, sets)?;
    }
    Ok(sets)
}

/// Whether this process may act for others at all.
pub(super) fn may_act_for_others() -> bool {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// Does `act` as `caller`, with its umask, but with the daemon's rights: the kernel has checked
/// the caller's own, with all its groups.
///
/// # Errors
///
/// What `act` says, or `EPERM` if the system does not take the caller's user or group.
pub(super) fn act_for<T>(
    caller: Caller,
    umask: u32,
    others: bool,
    act: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let sets = prepare_thread()?;
    if UMASK.replace(Some(umask & 0o777)) != Some(umask & 0o777) {
        rustix::process::umask(Mode::from_bits_truncate(umask & 0o777));
    }
    let (uid, gid) = own();
    if !others || (caller.uid == uid && caller.gid == gid) {
        return act();
    }
    let _back = Back { uid, gid, sets };
    if !set_gid(caller.gid) || !set_uid(caller.uid) {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    // The kernel has taken the rights of root on file systems with its number.
    rustix::thread::set_capabilities(None, sets)?;
    act()
}

/// The user and group of the daemon, which stay as they are.
fn own() -> (u32, u32) {
    static OWN: OnceLock<(u32, u32)> = OnceLock::new();
    *OWN.get_or_init(|| (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()))
}

/// Makes the thread the daemon again, also when it unwinds.
struct Back {
    uid: u32,
    gid: u32,
    sets: CapabilitySets,
}

impl Drop for Back {
    fn drop(&mut self) {
        let back = set_uid(self.uid) && set_gid(self.gid);
        let back = back && rustix::thread::set_capabilities(None, self.sets).is_ok();
        assert!(back, "a thread could not become the daemon again");
    }
}

/// Sets the user that this thread acts as; whether it worked.
fn set_uid(uid: u32) -> bool {
    // SAFETY: the call takes a number and touches no memory. It says what was before, so the
    // second, with a number that is never valid, says what is now.
    unsafe {
        libc::setfsuid(uid);
        libc::setfsuid(u32::MAX).cast_unsigned() == uid
    }
}

/// Sets the group that this thread acts as; whether it worked.
fn set_gid(gid: u32) -> bool {
    // SAFETY: as in `set_uid`.
    unsafe {
        libc::setfsgid(gid);
        libc::setfsgid(u32::MAX).cast_unsigned() == gid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_thread_acts_for_a_caller_and_is_itself_again() {
        if !may_act_for_others() {
            eprintln!("skipped: may not act for others");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let thread = std::thread::spawn(move || {
            let theirs = folder.path().join("theirs");
            let caller = Caller { pid: 1, uid: 1234, gid: 2345 };
            act_for(caller, 0o027, true, || std::fs::write(&theirs, "")).unwrap();
            let made = std::fs::metadata(&theirs).unwrap();
            assert_eq!((made.uid(), made.gid(), made.mode() & 0o777), (1234, 2345, 0o640));
            let nobody = Caller { pid: 1, uid: u32::MAX, gid: u32::MAX };
            let refused = act_for(nobody, 0, true, || Ok(())).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
            let own_file = folder.path().join("own");
            std::fs::write(&own_file, "").unwrap();
            assert_eq!(std::fs::metadata(&own_file).unwrap().uid(), own().0);
            let sets = rustix::thread::capabilities(None).unwrap();
            assert_eq!(sets, PREPARED.get().unwrap());
        });
        thread.join().unwrap();
    }
}
