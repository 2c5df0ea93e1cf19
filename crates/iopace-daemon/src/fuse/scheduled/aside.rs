//! Data of files on a file system that a user serves: it does not pass the device.
//!
//! Such a file system need not answer. What it was asked for would stay at the disk, as far as the
//! engine knows, and with as many requests as the disk may hold everybody else would wait for it;
//! so would syncs and write-back in the few threads that carry them out. So its data is read and
//! written by the thread that received the request, of which each user has so many and no more.
//! A request of the kernel in nobody's name counts as of him who has opened the file.
//!
//! No limit and no scheduler has a part in this: the disk behind such a file system, if there is
//! one, is asked by the program that serves it.

use super::super::caller::Caller;
use super::super::tree::data::{LateWrite, Opened};
use super::writes::{Write, answer, give, through_the_cache, whole};
use super::{SCRATCH, Scheduled};
use crate::io::file::File;
use crate::io::target::Target;
use iopace_fuse::{ReplyData, ReplyEmpty};
use rustix::io::Errno as SysErrno;
use std::io;
use std::sync::Arc;

impl Scheduled {
    pub(super) fn read_aside(
        &self,
        from: Caller,
        file: &Opened,
        (offset, len): (u64, u32),
        reply: ReplyData,
    ) {
        let late = self.inflight.begin_look(from.pid, reply);
        SCRATCH.with_borrow_mut(|scratch| {
            if scratch.len() < len as usize {
                scratch.resize(len as usize);
            }
            let into = &mut scratch.as_mut_slice()[..len as usize];
            let read = read_to_end(&file.file, into, offset);
            match (late.take(), read) {
                (Some(reply), Ok(count)) => reply.data(&into[..count]),
                (Some(reply), Err(error)) => reply.error(error.into()),
                (None, _) => {}
            }
        });
    }

    pub(super) fn write_aside(
        &self,
        file: &Arc<Opened>,
        write: Write<'_>,
        is_mapped: bool,
        late: &LateWrite<'_>,
    ) {
        let Write { data, mut target, durable, .. } = write;
        let len = data.len();
        if !is_mapped {
            let written = target.write_from(0, len as u64, durable, data);
            // Once it is answered, the program may close the file: that is not for this thread.
            drop(target);
            return answer(late, len, written);
        }
        let Some(reply) = late.take() else { return };
        let (file, data) = (Arc::clone(file), data.to_vec());
        self.inflight.carry_out(file.opener, move || {
            let written = match through_the_cache(&file, &mut target) {
                Ok(()) => target.write_from(0, len as u64, false, &data),
                Err(error) => Err((0, error)),
            };
            give(reply, len, whole(written));
        });
    }

    pub(super) fn sync_aside(
        &self,
        from: Caller,
        file: &Opened,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let late = self.inflight.begin_look(from.pid, reply);
        let synced = if data_only { file.file.flush() } else { file.file.flush_all() };
        match (late.take(), synced) {
            (Some(reply), Ok(())) => reply.ok(),
            (Some(reply), Err(error)) => reply.error(error.into()),
            (None, _) => {}
        }
    }
}

/// Between two such files; from or to another one the kernel reads and writes by itself.
pub(super) fn copy_aside(
    (source, start): (&Opened, u64),
    (file, offset): (&Opened, u64),
    len: u32,
    late: &LateWrite<'_>,
) {
    let copied = if source.is_aside && file.is_aside {
        let mut target = Target::new(Arc::clone(&file.file), offset);
        target.source = Some((Arc::clone(&source.file), start));
        target.write_from(0, u64::from(len), false, &[])
    } else {
        Err((0, io::Error::from_raw_os_error(libc::EXDEV)))
    };
    answer(late, len as usize, copied);
}

/// Reads up to the end of the file, or of `into`. Fewer bytes mean the end of the file to the
/// kernel's page cache, so what was read before an error counts only where that is bypassed.
fn read_to_end(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut at = 0;
    while at < into.len() {
        match rustix::io::pread(file.fd(), &mut into[at..], offset + at as u64) {
            Ok(0) => break,
            Ok(count) => at += count,
            Err(SysErrno::INTR) => {}
            Err(_) if at > 0 && file.is_direct() => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(at)
}
