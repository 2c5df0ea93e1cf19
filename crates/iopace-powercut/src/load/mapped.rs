//! A file that is mapped, and written without any call, by a process of its own: whoever serves
//! a mount must not wait for it in his own memory, as his threads then wait for that memory.

use super::SIZE;
use super::disk::Disk;
use std::ffi::c_void;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// The least that is synced.
const PAGE: u64 = 4096;

/// Bytes of the largest write.
const ROOM: usize = 16 << 10;

/// A number of a descriptor that nothing has.
const LAST: i32 = 900;

/// A request: first byte, length, and whether it is a sync, which has no data.
const HEAD: usize = 24;

/// A process that has the image mapped.
pub(super) struct Mapped {
    process: libc::pid_t,
    requests: UnixStream,
}

/// Maps the image and takes requests.
///
/// # Safety
/// For a process that has just been forked off: nothing but system calls and its own stack.
unsafe fn begin(requests: i32, file: i32) -> ! {
    // SAFETY: no call takes memory but that of a string that is always there; the place of the
    // mapping is the kernel's choice.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // Nothing of the others may stay open here. Numbers far behind all of theirs:
        let (requests, file) = (libc::dup2(requests, LAST), libc::dup2(file, LAST + 1));
        libc::syscall(libc::SYS_close_range, 0, requests - 1, 0);
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let at = libc::mmap(std::ptr::null_mut(), SIZE, both, libc::MAP_SHARED, file, 0);
        if at == libc::MAP_FAILED {
            libc::_exit(1);
        }
        serve(requests, at)
    }
}

/// Takes requests until there are no more.
///
/// # Safety
/// For a process that has just been forked off: nothing but system calls and its own stack. The
/// mapping has [`SIZE`] bytes.
unsafe fn serve(requests: i32, at: *mut c_void) -> ! {
    let (mut head, mut data) = ([0; HEAD / 8], [0_u64; ROOM / 8]);
    loop {
        // SAFETY: the buffers are as long as is said, and live through the calls; the range is
        // within the mapping, as the other side has checked.
        unsafe {
            let to = head.as_mut_ptr().cast();
            if libc::recv(requests, to, HEAD, libc::MSG_WAITALL) != HEAD as isize {
                libc::_exit(0);
            }
            let [offset, len, is_sync] = head.map(|word: u64| word as usize);
            let mut answer = 0_i32;
            if is_sync != 0 {
                if libc::msync(at.byte_add(offset), len, libc::MS_SYNC) != 0 {
                    answer = *libc::__errno_location();
                }
            } else {
                libc::recv(requests, data.as_mut_ptr().cast(), len, libc::MSG_WAITALL);
                for (place, word) in data[..len / 8].iter().enumerate() {
                    at.byte_add(offset + place * 8).cast::<u64>().write_volatile(*word);
                }
            }
            libc::send(requests, (&raw const answer).cast(), 4, libc::MSG_NOSIGNAL);
        }
    }
}

impl Mapped {
    /// Of the whole image.
    pub(super) fn new(file: &File) -> io::Result<Mapped> {
        let (requests, served) = UnixStream::pair()?;
        // SAFETY: the new process makes system calls only.
        let process = unsafe { libc::fork() };
        match process {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: as above; both descriptors are open.
            0 => unsafe { begin(served.as_raw_fd(), file.as_raw_fd()) },
            _ => Ok(Mapped { process, requests }),
        }
    }

    fn ask(&mut self, offset: u64, len: u64, data: Option<&[u8]>) -> io::Result<()> {
        assert!(offset + len <= SIZE as u64 && offset.is_multiple_of(8));
        let head = [offset, len, u64::from(data.is_none())].map(u64::to_ne_bytes);
        self.requests.write_all(head.as_flattened())?;
        self.requests.write_all(data.unwrap_or_default())?;
        let mut answer = [0; 4];
        self.requests.read_exact(&mut answer)?;
        match i32::from_ne_bytes(answer) {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    fn sync(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let first = offset / PAGE * PAGE;
        self.ask(first, offset + len - first, None)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let _ = self.requests.shutdown(std::net::Shutdown::Both);
        // SAFETY: our own child, which nobody else waits for.
        unsafe { libc::waitpid(self.process, std::ptr::null_mut(), 0) };
    }
}

impl Disk for Mapped {
    fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> io::Result<()> {
        assert!(data.len() <= ROOM);
        self.ask(offset, data.len() as u64, Some(data))?;
        if fua { self.sync(offset, data.len() as u64) } else { Ok(()) }
    }

    fn zero(&mut self, offset: u64, len: u64, fua: bool) -> io::Result<()> {
        self.write(offset, &vec![0; len as usize], fua)
    }

    /// Nothing of a mapping can be given back.
    fn trim(&mut self, offset: u64, len: u64, fua: bool) -> io::Result<()> {
        self.zero(offset, len, fua)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sync(0, SIZE as u64)
    }
}
