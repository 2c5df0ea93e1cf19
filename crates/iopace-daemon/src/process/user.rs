//! The numbers of users' and groups' names.

use std::ffi::CString;

/// Longest entry of a user or group that is read: ten times what `sysconf(_SC_GETPW_R_SIZE_MAX)`
/// hints at.
const ENTRY_BYTES: usize = 10 * 1024;

/// The number of the user of this name, from wherever the system keeps its users.
pub fn user_number(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    let mut buffer = vec![0; ENTRY_BYTES];
    let mut entry = std::mem::MaybeUninit::<libc::passwd>::uninit();
    let mut found = std::ptr::null_mut();
    // SAFETY: the name ends with 0; entry, buffer (with its length) and found are ours, outlive the
    // call, and nobody else has them.
    let error = unsafe {
        libc::getpwnam_r(
            name.as_ptr(),
            entry.as_mut_ptr(),
            buffer.as_mut_ptr(),
            buffer.len(),
            &raw mut found,
        )
    };
    if error != 0 || found.is_null() {
        return None;
    }
    // SAFETY: without an error and with something found, the entry has been written.
    Some(unsafe { entry.assume_init() }.pw_uid)
}

/// The number of the group of users of this name.
pub fn group_number(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    let mut buffer = vec![0; ENTRY_BYTES];
    let mut entry = std::mem::MaybeUninit::<libc::group>::uninit();
    let mut found = std::ptr::null_mut();
    // SAFETY: the name ends with 0; entry, buffer (with its length) and found are ours, outlive the
    // call, and nobody else has them.
    let error = unsafe {
        libc::getgrnam_r(
            name.as_ptr(),
            entry.as_mut_ptr(),
            buffer.as_mut_ptr(),
            buffer.len(),
            &raw mut found,
        )
    };
    if error != 0 || found.is_null() {
        return None;
    }
    // SAFETY: without an error and with something found, the entry has been written.
    Some(unsafe { entry.assume_init() }.gr_gid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_zero() {
        assert_eq!((user_number("root"), group_number("root")), (Some(0), Some(0)));
        assert_eq!(group_number("no such group"), None);
        assert_eq!(user_number("no such user"), None);
        assert_eq!(user_number("ro\0ot"), None);
    }
}
