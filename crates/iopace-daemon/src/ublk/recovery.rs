//! A device whose daemon was killed, taken over.
//!
//! The driver lets go of a server in steps: its places are given up, then its requests, then the
//! queues stand still (`UBLK_S_DEV_QUIESCED`), and when its last descriptor is closed another
//! process may open `/dev/ublkcN`. `START_USER_RECOVERY` forgets the old server; after it the new
//! one fetches all places, and `END_USER_RECOVERY` lets the queues go on.
//!
//! A process that takes over may be killed as well:
//!
//! | killed | what the next one finds |
//! |---|---|
//! | before `START_USER_RECOVERY` | the same as this one |
//! | after it, before the places are fetched | `EINVAL`: there is no server to be forgotten (1) |
//! | after they are fetched | a server that is gone, to be forgotten as the first |
//! | after `END_USER_RECOVERY` | a device with a server that is gone |
//!
//! (1) It goes on without, but only if nobody has `/dev/ublkcN` open and the queues stand still.
//! `EINVAL` counts only where the process that was killed is gone altogether: it may fetch the
//! places until then. So `/dev/ublkcN` is opened once before, which shows that nobody has it.

use super::abi::{DeviceFacts, DeviceState};
use super::limits::{BEGIN_STEP, BEGIN_TRIES, HOLD_TRIES, RECOVERY_PATIENCE, RECOVERY_STEP};
use super::making::{Plan, Running, open_char, remove};
use super::port::{ControlPort, UblkError, is};
use super::queues::Shape;
use super::server::ServerThread;
use crate::attached::{Seen, UblkFacts};
use crate::clock;
use rustix::io::Errno;
use std::io;
use std::thread;

/// How one try went.
enum Takeover {
    /// It is served.
    Served(ServerThread),
    /// The kernel, or the old server, is not done yet: what was seen.
    NotYet(&'static str),
    /// There is nothing to take over.
    Gone,
}

impl Plan {
    /// Takes over what a killed daemon has left. `None`: the device is there no more.
    ///
    /// # Errors
    /// Another process takes it over, it looked otherwise, or the kernel does not let us have it.
    pub(super) fn recover(
        &self,
        port: &mut ControlPort,
        left: &Seen,
    ) -> Result<Option<Running>, UblkError> {
        let Some(facts) = left.record.ublk else { return Ok(None) };
        if !hold(left) {
            let shown = left.record.loop_device.display();
            return Err(UblkError::Other(format!(
                "{shown}: another process takes it over or ends it; try again in a moment"
            )));
        }
        if self.seen(port, facts)?.is_none() {
            return Ok(None);
        }
        self.check(left)?;
        // Also if we are killed before it is served.
        let kept = self.keep(facts)?;
        let begun = clock::now();
        loop {
            let why = match self.try_once(port, facts)? {
                Takeover::Served(thread) => return Ok(Some(Running { facts, kept, thread })),
                Takeover::Gone => return Ok(None),
                Takeover::NotYet(why) => why,
            };
            if clock::elapsed(begun) > RECOVERY_PATIENCE {
                let shown = left.record.loop_device.display();
                return Err(UblkError::Other(format!(
                    "{shown}: is not free after {} s: {why}; try again, or end it with 'iopace \
                     detach --force {shown}'",
                    RECOVERY_PATIENCE.as_secs()
                )));
            }
            // SLEEP: the driver tells nobody when it is done.
            thread::sleep(RECOVERY_STEP);
        }
    }

    /// The device, if it is there and the one that was recorded.
    fn seen(
        &self,
        port: &mut ControlPort,
        facts: UblkFacts,
    ) -> Result<Option<DeviceFacts>, UblkError> {
        match port.facts(facts.id) {
            Ok(found) if found.mark != facts.mark => Ok(None),
            // It was never started: nobody has used it.
            Ok(found) if found.state == DeviceState::Dead => {
                let removed = remove(port, facts.id);
                let refused = |error| UblkError::Command(facts.id, error, "is not deleted");
                removed.map_err(refused).map(|()| None)
            }
            Ok(found) => Ok(Some(found)),
            Err(error) if is(&error, Errno::NODEV) => Ok(None),
            Err(error) => Err(UblkError::Command(facts.id, error, "the driver says nothing")),
        }
    }

    /// Whether it looks as it did.
    fn check(&self, left: &Seen) -> Result<(), UblkError> {
        let (old, new) = (&left.record, &self.record);
        let blocks = |record: &crate::attached::Record| record.ublk.map(|ublk| ublk.block_bytes);
        let same = (old.size_bytes, old.read_only, blocks(old))
            == (new.size_bytes, new.read_only, blocks(new));
        let file = |record: &crate::attached::Record| record.ublk.and_then(|ublk| ublk.file);
        let shown = old.loop_device.display();
        if file(old).is_some() && file(old) != file(new) {
            return Err(UblkError::Other(format!(
                "{shown} waits for its daemon with another file, which had that name: what it \
                 still has to write does not belong here; give the file its name back, or end the \
                 device with 'iopace detach {shown}'"
            )));
        }
        if same {
            return Ok(());
        }
        let what = if old.read_only { "read-only, " } else { "" };
        let block = blocks(old).unwrap_or(512);
        Err(UblkError::Other(format!(
            "{shown} waits for its daemon as it was attached: {what}{} bytes in sectors of \
             {block}; attach it so again, or end it with 'iopace detach {shown}'",
            old.size_bytes
        )))
    }

    fn try_once(&self, port: &mut ControlPort, facts: UblkFacts) -> Result<Takeover, UblkError> {
        let id = facts.id;
        let refused = |what| move |error: io::Error| UblkError::Command(id, error, what);
        let is_open = "the daemon that was killed is not gone yet";
        match open_char(id) {
            Ok(file) => drop(file),
            Err(error) if is(&error, Errno::BUSY) => return Ok(Takeover::NotYet(is_open)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Takeover::Gone),
            Err(error) => return Err(UblkError::Node(id, error)),
        }
        let Some(found) = self.seen(port, facts)? else { return Ok(Takeover::Gone) };
        if found.state != DeviceState::Quiesced {
            return Ok(Takeover::NotYet("the kernel waits for requests that the daemon had"));
        }
        match begin(port, id) {
            Ok(()) => {}
            Err(error) if is(&error, Errno::BUSY) => return Ok(Takeover::NotYet(is_open)),
            // The one before us has begun it, and fetched nothing.
            Err(error) if is(&error, Errno::INVAL) => {
                tracing::debug!("ublk device {id}: its recovery has begun already");
            }
            Err(error) => return Err(refused("cannot be taken over")(error)),
        }
        let file = match open_char(id) {
            Err(error) if is(&error, Errno::BUSY) => return Ok(Takeover::NotYet(is_open)),
            file => file.map_err(|error| UblkError::Node(id, error))?,
        };
        let shape = Shape { queues_count: found.queues_count, depth: found.depth };
        let thread = match self.serve_by(file, shape) {
            Ok(thread) => thread,
            Err(error) if is(&error, Errno::INVAL) || is(&error, Errno::BUSY) => {
                return Ok(Takeover::NotYet("the kernel still has the places of the old daemon"));
            }
            Err(error) => return Err(refused("not served")(error)),
        };
        port.end_recovery(id).map_err(refused("does not go on"))?;
        Ok(Takeover::Served(thread))
    }
}

/// Takes the lock of the record. Whoever lists what is attached has it for a moment as well.
fn hold(left: &Seen) -> bool {
    (0..HOLD_TRIES).any(|attempt| {
        if attempt > 0 {
            // SLEEP: nobody tells when a lock is free and this does not wait in line for it.
            thread::sleep(RECOVERY_STEP);
        }
        left.try_hold()
    })
}

/// Has the driver forget the old server. Since Linux 6.16 it notices some time after a close that
/// nobody has the device open, and this process has just had it open to see that nobody else had.
fn begin(port: &mut ControlPort, id: u32) -> io::Result<()> {
    let mut done = port.begin_recovery(id);
    for _ in 0..BEGIN_TRIES {
        match &done {
            // SLEEP: the driver tells nobody when it has noticed.
            Err(error) if is(error, Errno::BUSY) => thread::sleep(BEGIN_STEP),
            _ => break,
        }
        done = port.begin_recovery(id);
    }
    done
}
