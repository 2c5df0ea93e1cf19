//! Processes that lock files at the word of a test. Each is a fork of the test that makes nothing
//! but system calls.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;

/// A process that does not answer for so long hangs.
const HANG_MS: i32 = 60_000;

const OPEN: i32 = 1;
const CLOSE: i32 = 2;
const RANGE: i32 = 3;
const WHOLE: i32 = 4;
const FORK: i32 = 5;
const DUP: i32 = 6;
const READ: i32 = 7;
const BECOME: i32 = 8;

/// A system call to be made.
#[repr(C)]
#[derive(Clone, Copy)]
struct Order {
    what: i32,
    fd: i32,
    command: i32,
    kind: i32,
    start: i64,
    len: i64,
    path: [u8; 192],
}

/// What it has given: a number, or an error below 0; and the lock that is in the way.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub result: i32,
    pub kind: i32,
    pub pid: i32,
    pub start: i64,
    pub len: i64,
}

const ORDER: usize = size_of::<Order>();
const ANSWER: usize = size_of::<Answer>();

fn order(what: i32, fd: i32) -> Order {
    Order { what, fd, command: 0, kind: 0, start: 0, len: 0, path: [0; 192] }
}

/// A process; killed when it goes.
pub struct Process {
    pub pid: i32,
    orders: File,
    answers: File,
}

fn pipe() -> (File, File) {
    let mut ends = [0; 2];
    // SAFETY: the array has room for both; both are new and owned by nobody else.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1]))
    }
}

impl Process {
    pub fn new() -> Process {
        let ((take, orders), (answers, give)) = (pipe(), pipe());
        // SAFETY: the child makes nothing but system calls and touches no memory of others.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            // SAFETY: as above.
            unsafe { serve(take.as_raw_fd(), give.as_raw_fd()) };
        }
        let process = Process { pid, orders, answers };
        // From here on it has nothing open that was ours.
        process.answer();
        process
    }

    /// One that belongs to a user.
    pub fn of(uid: u32) -> Process {
        let process = Process::new();
        assert_eq!(process.call(Order { kind: uid.cast_signed(), ..order(BECOME, 0) }), 0);
        process
    }

    fn send(&self, order: Order) {
        // SAFETY: the structure has no padding and no bytes that are not set.
        let bytes = unsafe { std::slice::from_raw_parts((&raw const order).cast::<u8>(), ORDER) };
        (&self.orders).write_all(bytes).unwrap();
    }

    /// Whether it has answered by now, or answers within so many milliseconds.
    pub fn has_answered(&self, wait_ms: i32) -> bool {
        let mut polled =
            libc::pollfd { fd: self.answers.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, which the kernel writes during the call.
        unsafe { libc::poll(&raw mut polled, 1, wait_ms) == 1 }
    }

    /// What it has answered to what was begun.
    pub fn answer(&self) -> Answer {
        assert!(self.has_answered(HANG_MS), "a process hangs");
        let mut bytes = [0; ANSWER];
        (&self.answers).read_exact(&mut bytes).unwrap();
        // SAFETY: any bytes are a valid value.
        unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) }
    }

    fn call(&self, order: Order) -> i32 {
        self.send(order);
        self.answer().result
    }

    pub fn open_as(&self, path: &Path, flags: i32) -> i32 {
        let path = CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        let mut bytes = [0; 192];
        bytes[..path.as_bytes().len()].copy_from_slice(path.as_bytes());
        let fd = self.call(Order { kind: flags, path: bytes, ..order(OPEN, 0) });
        assert!(fd >= 0, "{path:?}: {}", io::Error::from_raw_os_error(-fd));
        fd
    }

    pub fn open(&self, path: &Path) -> i32 {
        self.open_as(path, libc::O_RDWR | libc::O_CREAT)
    }

    pub fn close(&self, fd: i32) {
        assert_eq!(self.call(order(CLOSE, fd)), 0);
    }

    pub fn dup(&self, fd: i32) -> i32 {
        self.call(order(DUP, fd))
    }

    /// The process that it has forked, with the same descriptors; it is killed with `end`.
    pub fn fork(&self) -> i32 {
        self.call(order(FORK, 0))
    }

    /// Reads a byte.
    pub fn read(&self, fd: i32) -> i32 {
        self.call(order(READ, fd))
    }

    /// Begins `fcntl` with a command, or `flock` for 0.
    pub fn begin(&self, fd: i32, command: i32, kind: i32, (start, len): (i64, i64)) {
        let what = if command == 0 { WHOLE } else { RANGE };
        self.send(Order { command, kind, start, len, ..order(what, fd) });
    }

    pub fn lock(&self, fd: i32, command: i32, kind: i32, range: (i64, i64)) -> Answer {
        self.begin(fd, command, kind, range);
        self.answer()
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: it is our own child.
        unsafe { libc::kill(self.pid, signal) };
    }

    /// Ends it at once, and waits for that.
    pub fn end(self) {}
}

impl Drop for Process {
    fn drop(&mut self) {
        end(self.pid);
    }
}

/// Kills a process, and waits for that if it is a child of ours.
pub fn end(pid: i32) {
    // SAFETY: it is a child of ours, or a child of one.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

extern "C" fn nothing(_: i32) {}

/// The loop of the child.
///
/// # Safety
/// Only in a process that was just forked.
unsafe fn serve(take: i32, give: i32) -> ! {
    // SAFETY: system calls only, with memory of this function.
    unsafe {
        libc::dup2(take, 0);
        libc::dup2(give, 1);
        libc::close_range(3, u32::MAX, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
        let mut answer = Answer::default();
        loop {
            libc::write(1, (&raw const answer).cast(), ANSWER);
            let mut order = order(0, 0);
            let count = loop {
                let count = libc::read(0, (&raw mut order).cast(), ORDER);
                if count >= 0 || *libc::__errno_location() != libc::EINTR {
                    break count;
                }
            };
            if count != ORDER as isize {
                libc::_exit(0);
            }
            answer = carry_out(&order);
        }
    }
}

/// # Safety
/// As [`serve`].
unsafe fn carry_out(order: &Order) -> Answer {
    let mut answer = Answer::default();
    // SAFETY: as in `serve`.
    unsafe {
        let result = match order.what {
            OPEN => {
                libc::open(CStr::from_ptr(order.path.as_ptr().cast()).as_ptr(), order.kind, 0o666)
            }
            CLOSE => libc::close(order.fd),
            DUP => libc::dup(order.fd),
            WHOLE => libc::flock(order.fd, order.kind),
            READ => libc::pread(order.fd, [0u8; 1].as_mut_ptr().cast(), 1, 0) as i32,
            BECOME => libc::setresuid(
                order.kind.cast_unsigned(),
                order.kind.cast_unsigned(),
                order.kind.cast_unsigned(),
            ),
            FORK => match libc::fork() {
                0 => {
                    libc::close(0);
                    libc::close(1);
                    loop {
                        libc::pause();
                    }
                }
                pid => pid,
            },
            _ => {
                let mut lock: libc::flock = std::mem::zeroed();
                lock.l_type = order.kind as libc::c_short;
                (lock.l_start, lock.l_len) = (order.start, order.len);
                let result = libc::fcntl(order.fd, order.command, &raw mut lock);
                answer.kind = i32::from(lock.l_type);
                (answer.pid, answer.start, answer.len) = (lock.l_pid, lock.l_start, lock.l_len);
                result
            }
        };
        answer.result = if result < 0 { -*libc::__errno_location() } else { result };
    }
    answer
}
