//! The sockets of machines: one for each export that is to be a disk, one machine at a time each.

use super::blk::Disk;
use super::machine::Machine;
use super::session::Session;
use crate::clock;
use crate::config::Listen;
use crate::exports::{Export, ExportTable, Frontend};
use crate::limits::CONNECTION_STACK_BYTES;
use crate::listener::{Acceptor, Listener};
use crate::memory::Memory;
use crate::printable;
use crate::start_error::StartError;
use iopace_core::time::Nanos;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// A machine that comes while the one before has not ended waits for so long: one that was killed
/// is gone when its requests are done.
const TURN_PATIENCE: Duration = Duration::from_secs(5);

/// The socket of an export, and the machine whose disk it is.
struct Slot {
    path: PathBuf,
    /// The number of the export.
    export: usize,
    turn: Mutex<Turn>,
    changed: Condvar,
}

#[derive(Default)]
struct Turn {
    machine: Option<Arc<Machine>>,
    /// Whether another one waits for its end.
    is_awaited: bool,
    /// Whether it was said that another one was turned away.
    is_told: bool,
    is_closed: bool,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is that machine's turn. False if it does not come.
    fn enter(&self, machine: &Arc<Machine>) -> bool {
        let mut turn = self.lock();
        if turn.is_awaited {
            return false;
        }
        turn.is_awaited = true;
        let is_taken = |turn: &mut Turn| turn.machine.is_some() && !turn.is_closed;
        let waited = self.changed.wait_timeout_while(turn, TURN_PATIENCE, is_taken);
        let mut turn = waited.unwrap_or_else(PoisonError::into_inner).0;
        turn.is_awaited = false;
        let is_free = turn.machine.is_none() && !turn.is_closed;
        if is_free {
            turn.machine = Some(Arc::clone(machine));
            turn.is_told = false;
        } else if !std::mem::replace(&mut turn.is_told, true) {
            let path = self.path.display().to_string();
            let path = printable::name(&path);
            tracing::warn!("a virtual machine was turned away: {path} serves another one");
        }
        is_free
    }
}

/// A machine in its slot, for as long as its thread lives (or panics).
struct Entered {
    slot: Arc<Slot>,
    exports: Arc<ExportTable>,
    machine: Arc<Machine>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.machine.finish();
        self.exports.groups().leave(self.machine.number);
        self.slot.lock().machine = None;
        self.slot.changed.notify_all();
    }
}

/// The exports of a daemon that are disks of machines.
pub(crate) struct Machines {
    exports: Arc<ExportTable>,
    slots: Vec<Arc<Slot>>,
    acceptors: Mutex<Vec<Acceptor>>,
}

impl Machines {
    /// Binds the sockets and serves; `None` if no export has one.
    ///
    /// # Errors
    /// A socket that cannot be bound, or no threads; no socket is left behind then.
    pub(crate) fn start(
        exports: Arc<ExportTable>,
        memory: &Arc<Memory>,
    ) -> Result<Option<Machines>, StartError> {
        let mut all = Machines { exports, slots: Vec::new(), acceptors: Mutex::default() };
        let places: Vec<(usize, PathBuf)> = all.places().collect();
        for (export, path) in places {
            let started = all.listen(export, path, memory);
            if let Err(error) = started {
                all.stop_accepting();
                return Err(error);
            }
        }
        Ok((!all.slots.is_empty()).then_some(all))
    }

    fn places(&self) -> impl Iterator<Item = (usize, PathBuf)> {
        let with_socket =
            |export: &Export| Some((export.number, export.config.vhost_user.clone()?));
        let all: Vec<_> = self.exports.all().iter().filter_map(with_socket).collect();
        all.into_iter()
    }

    fn listen(
        &mut self,
        export: usize,
        path: PathBuf,
        memory: &Arc<Memory>,
    ) -> Result<(), StartError> {
        let listener = Listener::bind(&Listen::Unix(path.clone()))?;
        let (turn, changed) = (Mutex::default(), Condvar::new());
        let slot = Arc::new(Slot { path, export, turn, changed });
        self.slots.push(Arc::clone(&slot));
        let (exports, memory) = (Arc::clone(&self.exports), Arc::clone(memory));
        let serve = move |socket| {
            if let Err(error) = serve(&slot, &exports, &memory, socket) {
                tracing::warn!(%error, "a virtual machine could not be served");
            }
            true
        };
        let acceptor = Acceptor::start(listener, serve).map_err(StartError::Threads)?;
        self.acceptors.get_mut().unwrap_or_else(PoisonError::into_inner).push(acceptor);
        Ok(())
    }
}

/// The export of a slot, which is never removed as long as there is the slot.
fn found(exports: &ExportTable, number: usize) -> io::Result<Export> {
    let found = exports.all().iter().find(|export| export.number == number).cloned();
    found.ok_or_else(|| io::Error::other("the export is removed"))
}

/// Starts the thread of a machine.
fn serve(
    slot: &Arc<Slot>,
    exports: &Arc<ExportTable>,
    memory: &Arc<Memory>,
    socket: OwnedFd,
) -> io::Result<()> {
    let Export { config: export, device, .. } = found(exports, slot.export)?;
    let disk = Disk::new(device.info(), device.size_bytes(), &export.name, export.read_only);
    let (number, socket) = (exports.next_task(), UnixStream::from(socket));
    let disk = (device, disk);
    let machine = Machine::new(number, disk, Arc::clone(memory), &socket)?;
    let (slot, exports) = (Arc::clone(slot), Arc::clone(exports));
    let builder = thread::Builder::new().name(format!("vm-{number}"));
    builder.stack_size(CONNECTION_STACK_BYTES).spawn(move || {
        if !slot.enter(&machine) {
            return;
        }
        let entered = Entered { slot, exports, machine: Arc::clone(&machine) };
        let who = (number, &machine.payer, None);
        let joined = entered.exports.groups().join(who, entered.slot.export, None);
        let begun = joined.map_err(io::Error::other);
        match begun.and_then(|()| Session::new(Arc::clone(&machine), socket)) {
            Ok(session) => session.run(),
            Err(error) => tracing::warn!(%error, "a virtual machine could not be served"),
        }
    })?;
    Ok(())
}

/// A name as QEMU takes it: of letters, digits and `-._`, the first one a letter.
fn qemu_id(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '_' };
    let id: String = name.chars().map(plain).collect();
    let begins_well = id.starts_with(|first: char| first.is_ascii_alphabetic());
    if begins_well { id } else { format!("disk-{id}") }
}

impl Frontend for Machines {
    /// Options of QEMU; its memory must be shared as well.
    fn uris(&self) -> Vec<String> {
        let line = |slot: &Arc<Slot>| {
            let export = found(&self.exports, slot.export);
            let id = qemu_id(&export.map(|export| export.config.name).unwrap_or_default());
            // A comma ends a value there, and two are one.
            let path = slot.path.display().to_string().replace(',', ",,");
            let path = printable::quoted(&format!("socket,id={id},path={path},reconnect=1"));
            format!("-chardev {path} -device vhost-user-blk-pci,chardev={id}")
        };
        self.slots.iter().map(line).collect()
    }

    fn connections_count(&self) -> usize {
        self.slots.iter().filter(|slot| slot.lock().machine.is_some()).count()
    }

    fn stop_accepting(&self) {
        self.acceptors.lock().unwrap_or_else(PoisonError::into_inner).clear();
        for slot in &self.slots {
            let _ = fs::remove_file(&slot.path);
            let mut turn = slot.lock();
            turn.is_closed = true;
            if let Some(machine) = &turn.machine {
                machine.stop();
            }
            slot.changed.notify_all();
        }
    }

    fn end(&self, patience: Duration) -> usize {
        let is_there = |turn: &mut Turn| turn.machine.is_some();
        let patience = Nanos(u64::try_from(patience.as_nanos()).expect("seconds"));
        let deadline = clock::now() + patience;
        let ended = |slot: &&Arc<Slot>| {
            let left = clock::until(deadline).unwrap_or_default();
            let waited = slot.changed.wait_timeout_while(slot.lock(), left, is_there);
            waited.unwrap_or_else(PoisonError::into_inner).0.machine.is_some()
        };
        self.slots.iter().filter(ended).count()
    }
}
