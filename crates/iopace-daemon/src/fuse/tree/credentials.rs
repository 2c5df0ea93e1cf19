//! Acting for a caller: the file system below decides for it as if it had called there itself.
//!
//! Linux keeps the user, groups and capabilities that a thread acts with per thread; its umask and
//! working directory too, once `unshare(CLONE_FS)` was called. The kernel says with each request
//! which user and group the caller acts as on file systems (`fsuid`, `fsgid`), and which thread it
//! is. Capabilities and further groups are those of that thread:
//!
//! | the thread | acts below with |
//! | --- | --- |
//! | acts as the request says | its groups and capabilities |
//! | does so in another user namespace | its capabilities only over owners mapped there |
//! | acts as somebody else | all for root; else no groups, and as in the next line |
//! | cannot be seen | all for root; else the right to pass mode bits |
//!
//! It acts as somebody else where the kernel acts for it: overlayfs, nfsd. It cannot be seen from
//! another pid namespace. In both the kernel has checked the mode bits with what it knows.

use super::super::caller::Caller;
use super::descriptors::descriptors;
use super::inode::Inode;
use crate::clock;
use crate::process::{Credentials, Namespace};
use iopace_core::time::{Instant, Nanos};
use rustix::fs::Mode;
use rustix::process::{Gid, Pid};
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::OnceLock;

/// Capabilities that count on file systems: of these only what the caller has is kept for it.
const FILES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::LEASE)
    .union(CapabilitySet::LINUX_IMMUTABLE)
    .union(CapabilitySet::MAC_ADMIN)
    .union(CapabilitySet::MAC_OVERRIDE)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::SYS_RESOURCE);

/// Of these, the ones that count in a user namespace for files whose owners it maps.
const IN_NAMESPACE: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SETFCAP);

/// For a caller of which only the user and group are known. The kernel has checked the mode bits
/// with all its groups; what takes an owner or a capability is refused.
const UNKNOWN: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);

/// With these, further groups of the daemon decide nothing: most callers have none either.
const NEEDS_NO_GROUPS: CapabilitySet =
    UNKNOWN.union(CapabilitySet::CHOWN).union(CapabilitySet::FSETID).union(CapabilitySet::SETGID);

/// The groups of a thread are read again after this: it may have changed them meanwhile, while its
/// capabilities are looked at each time.
const GROUPS_FRESH: Nanos = Nanos(10_000_000);

/// Callers that a thread remembers for so long.
const RECENT_MAX: usize = 4;

/// The identity of a thread of the daemon when it acts for nobody.
#[derive(Clone, Debug)]
pub(super) struct Daemon {
    sets: CapabilitySets,
    groups: Rc<[Gid]>,
    /// It could not give them up, as its user namespace denies `setgroups`.
    keeps_groups: bool,
}

/// The groups and capabilities of a caller.
#[derive(Debug)]
struct Rights {
    /// Its further groups, without the one that it acts as: that counts anyway.
    groups: Vec<Gid>,
    granted: CapabilitySet,
    namespace: Option<Namespace>,
}

/// A caller whose rights were found.
struct Recent {
    caller: Caller,
    effective: CapabilitySet,
    until: Instant,
    rights: Rc<Rights>,
}

thread_local! {
    /// This thread, once it is prepared.
    static PREPARED: RefCell<Option<Daemon>> = const { RefCell::new(None) };

    /// Its umask, once it was set.
    static UMASK: Cell<Option<u32>> = const { Cell::new(None) };

    /// The callers that the thread acted for last.
    static RECENT: RefCell<VecDeque<Recent>> = const { RefCell::new(VecDeque::new()) };
}

/// Gives this thread a umask of its own and puts it into the folder of descriptors; it also
/// respects quotas from then on.
///
/// # Errors
///
/// The system refuses; nothing then is done for anybody.
pub(super) fn prepare_thread() -> io::Result<Daemon> {
    if let Some(daemon) = PREPARED.with_borrow(Clone::clone) {
        return Ok(daemon);
    }
    // SAFETY: only the working directory, root and umask of this thread become its own; it shares
    // no memory or descriptors less than before.
    if unsafe { libc::unshare(libc::CLONE_FS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    rustix::process::fchdir(descriptors()?)?;
    let sets = respect_quotas()?;
    let needs_none = sets.effective.contains(NEEDS_NO_GROUPS);
    // Where a user namespace denies that, they stay.
    let keeps_groups = needs_none && rustix::thread::set_thread_groups(&[]).is_err();
    let groups = rustix::process::getgroups()?.into();
    let daemon = Daemon { sets, groups, keeps_groups };
    PREPARED.set(Some(daemon.clone()));
    Ok(daemon)
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

/// Whether `caller` is the user of this process.
pub(super) fn is_own(caller: Caller) -> bool {
    caller.uid == own().0
}

/// Whether this user is root or that of this process: whatever the process may have is his.
pub(super) fn is_own_user(uid: u32) -> bool {
    uid == 0 || uid == own().0
}

/// Sets the umask for what this thread creates next.
pub(super) fn set_umask(umask: u32) {
    let umask = umask & 0o777;
    if UMASK.replace(Some(umask)) != Some(umask) {
        rustix::process::umask(Mode::from_bits_truncate(umask));
    }
}

/// Does `act` as `caller`, with its groups and no capability over files that it has not got itself.
/// `files` are those that the call is about: in a user namespace their owners decide.
///
/// # Errors
///
/// What `act` says, or `EPERM` if the system does not take the caller's user or group.
pub(super) fn act_for<T>(
    caller: Caller,
    files: &[&Inode],
    act: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    act_with(caller, files, |granted| granted, act)
}

/// The same, without the right to keep set-user-id bits, but with that to take them away: what the
/// kernel does to a file that is written by somebody without `CAP_FSETID`.
pub(super) fn act_as_writer<T>(
    caller: Caller,
    files: &[&Inode],
    act: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let strips = |granted| (granted | CapabilitySet::FOWNER) - CapabilitySet::FSETID;
    act_with(caller, files, strips, act)
}

/// Whether the caller may keep set-user-id bits of a file that it changes (`CAP_FSETID`).
pub(super) fn keeps_set_id(caller: Caller, inode: &Inode) -> bool {
    rights(caller).over(&[inode]).contains(CapabilitySet::FSETID)
}

fn act_with<T>(
    caller: Caller,
    files: &[&Inode],
    adjust: impl FnOnce(CapabilitySet) -> CapabilitySet,
    act: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let daemon = prepare_thread()?;
    let rights = rights(caller);
    let granted = adjust(rights.over(files));
    let dropped = daemon.sets.effective & FILES & !granted;
    if dropped.is_empty() && (caller.uid, caller.gid) == own() {
        return act();
    }
    let sets = CapabilitySets { effective: daemon.sets.effective - dropped, ..daemon.sets };
    let mut back = Back::new(daemon);
    if !back.leave(caller, &rights) {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    // The kernel has changed some of them with the user.
    rustix::thread::set_capabilities(None, sets)?;
    act()
}

impl Rights {
    /// Of a caller of which no more is known.
    fn unknown(caller: Caller) -> Rights {
        let granted = if caller.uid == 0 { CapabilitySet::all() } else { UNKNOWN };
        Rights { groups: Vec::new(), granted, namespace: None }
    }

    /// Of a caller whose thread has these capabilities, in its user namespace.
    fn find(caller: Caller, effective: CapabilitySet) -> Rights {
        let Some(found) = Credentials::of(caller.pid) else { return Rights::unknown(caller) };
        let Credentials { uid, gid, groups, namespace } = found;
        if (uid, gid) == (caller.uid, caller.gid) {
            let further = groups.into_iter().filter(|group| *group != gid);
            let groups = further.map(Gid::from_raw).collect();
            return Rights { groups, granted: effective, namespace };
        }
        // The kernel acts for it with rights that nobody else sees, and has checked them.
        match namespace {
            Some(space) if caller.uid != 0 && space.maps(caller.uid, caller.gid) => {
                Rights { groups: Vec::new(), granted: IN_NAMESPACE, namespace: Some(space) }
            }
            _ => Rights::unknown(caller),
        }
    }

    /// Whether the daemon has to take on the groups of the caller. Those that it cannot give up it
    /// keeps where the caller has all of them: nothing is then granted that the caller has not got.
    fn needs_groups(&self, gid: u32, daemon: &Daemon) -> bool {
        let further = || daemon.groups.iter().filter(|group| group.as_raw() != gid);
        let may_keep = || daemon.keeps_groups && further().all(|group| self.groups.contains(group));
        !self.groups.iter().eq(further()) && !may_keep()
    }

    /// The capabilities that count for these files.
    fn over(&self, files: &[&Inode]) -> CapabilitySet {
        let Some(space) = &self.namespace else { return self.granted };
        let is_mapped =
            |inode: &&Inode| inode.stat().is_ok_and(|stat| space.maps(stat.st_uid, stat.st_gid));
        if files.iter().all(is_mapped) {
            self.granted & IN_NAMESPACE
        } else {
            CapabilitySet::empty()
        }
    }
}

/// The rights of a caller. It waits for our answer, so they stay as they are until then.
fn rights(caller: Caller) -> Rc<Rights> {
    let pid = i32::try_from(caller.pid).ok().and_then(Pid::from_raw);
    let sets = pid.and_then(|pid| rustix::thread::capabilities(Some(pid)).ok());
    let Some(effective) = sets.map(|sets| sets.effective) else {
        return Rc::new(Rights::unknown(caller));
    };
    let now = clock::now();
    RECENT.with_borrow_mut(|recent| {
        recent.retain(|one| now < one.until);
        let same = |one: &&Recent| one.caller == caller && one.effective == effective;
        if let Some(known) = recent.iter().find(same) {
            return Rc::clone(&known.rights);
        }
        let rights = Rc::new(Rights::find(caller, effective));
        recent.truncate(RECENT_MAX - 1);
        let until = now + GROUPS_FRESH;
        recent.push_front(Recent { caller, effective, until, rights: Rc::clone(&rights) });
        rights
    })
}

/// The user and group of the daemon, which stay as they are.
fn own() -> (u32, u32) {
    static OWN: OnceLock<(u32, u32)> = OnceLock::new();
    *OWN.get_or_init(|| (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()))
}

/// Makes the thread the daemon again, also when it unwinds. What the daemon and the caller have in
/// common is not changed, and only what was changed is changed back.
struct Back {
    daemon: Daemon,
    has_other_user: bool,
    has_other_group: bool,
    has_other_groups: bool,
}

impl Back {
    fn new(daemon: Daemon) -> Back {
        let (has_other_user, has_other_group, has_other_groups) = (false, false, false);
        Back { daemon, has_other_user, has_other_group, has_other_groups }
    }

    /// Takes on the user and groups of the caller; whether it worked.
    fn leave(&mut self, caller: Caller, rights: &Rights) -> bool {
        let (uid, gid) = own();
        let (other_user, other_group) = (caller.uid != uid, caller.gid != gid);
        let other_groups = rights.needs_groups(caller.gid, &self.daemon);
        self.has_other_groups =
            other_groups && rustix::thread::set_thread_groups(&rights.groups).is_ok();
        if self.has_other_groups != other_groups {
            return false;
        }
        self.has_other_group = other_group && set_gid(caller.gid);
        if self.has_other_group != other_group {
            return false;
        }
        self.has_other_user = other_user && set_uid(caller.uid);
        self.has_other_user == other_user
    }
}

impl Drop for Back {
    fn drop(&mut self) {
        // The user first, with whose change the kernel changes capabilities; then those that it
        // takes to set groups.
        let ((uid, gid), Daemon { sets, groups, .. }) = (own(), &self.daemon);
        let back = (!self.has_other_user || set_uid(uid))
            && rustix::thread::set_capabilities(None, *sets).is_ok()
            && (!self.has_other_groups || rustix::thread::set_thread_groups(groups).is_ok())
            && (!self.has_other_group || set_gid(gid));
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
mod tests;
