//! What `ionice` sets: the I/O class of a thread, `ioprio_set(2)` and `ioprio_get(2)`.

use iopace_core::group::Class;
use std::io;

/// As for `ioprio_set(2)`: the class above, the level within it below.
const CLASS_SHIFT: u32 = 13;

/// The level that `ionice -c1` and `ionice -c2` give without another word.
const LEVEL: u16 = 4;

const IOPRIO_WHO_PROCESS: libc::c_int = 1;

/// A class and a level in it; zero is that nothing is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoPriority(pub u16);

impl From<Class> for IoPriority {
    /// The class with its usual level.
    fn from(class: Class) -> IoPriority {
        IoPriority(match class {
            Class::RealTime => (1 << CLASS_SHIFT) | LEVEL,
            Class::BestEffort => (2 << CLASS_SHIFT) | LEVEL,
            Class::Idle => 3 << CLASS_SHIFT,
        })
    }
}

/// That of a thread, by its number; of the thread that asks with 0. What is said can be set again.
///
/// # Errors
/// There is no such thread.
pub fn get(thread: u32) -> io::Result<IoPriority> {
    let thread = libc::c_int::try_from(thread).map_err(|_| io::ErrorKind::NotFound)?;
    // SAFETY: three integers go in and one comes out; no memory is touched.
    let got = unsafe { libc::syscall(libc::SYS_ioprio_get, IOPRIO_WHO_PROCESS, thread) };
    u16::try_from(got).map(as_set).map_err(|_| io::Error::last_os_error())
}

/// Kernels up to 5.17 say of a thread without a class that its level is 4, and take no level with
/// no class.
fn as_set(said: u16) -> IoPriority {
    IoPriority(if said >> CLASS_SHIFT == 0 { 0 } else { said })
}

/// Sets that of a thread, by its number; of the thread that asks with 0. Threads and processes
/// that it starts from then on have it too.
///
/// # Errors
/// There is no such thread, it belongs to another user, or real time is not allowed.
pub fn set(thread: u32, priority: IoPriority) -> io::Result<()> {
    let thread = libc::c_int::try_from(thread).map_err(|_| io::ErrorKind::NotFound)?;
    let priority = libc::c_int::from(priority.0);
    // SAFETY: integers go in and one comes out; no memory is touched.
    let set = unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, thread, priority) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_class_has_no_level() {
        assert_eq!((as_set(4), as_set(0)), (IoPriority(0), IoPriority(0)));
        let set = IoPriority::from(Class::BestEffort);
        assert_eq!(as_set(set.0), set);
    }

    #[test]
    fn a_thread_passes_its_class_on() {
        let before = get(0).expect("our own");
        set(0, Class::Idle.into()).expect("allowed to everybody");
        assert_eq!(get(0).expect("our own"), IoPriority(3 << 13));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("started");
        assert_eq!(get(child.id()).expect("there"), Class::Idle.into());
        set(child.id(), Class::BestEffort.into()).expect("our own child");
        assert_eq!(get(child.id()).expect("there"), Class::BestEffort.into());
        child.kill().and_then(|()| child.wait()).expect("ended");
        assert!(set(child.id(), Class::Idle.into()).is_err());
        assert!(set(u32::MAX, before).is_err() && get(u32::MAX).is_err());
        set(0, before).expect("as it was");
    }
}
