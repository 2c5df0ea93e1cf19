//! Exports that come and go in a running daemon, and devices that get another size.
//!
//! ```text
//!   add:     open the device (locks, who else has it) ─► groups, live, dirty know it ─► export
//!   remove:  closed for newcomers ─► clients end ─► flush ─► export is gone ─► device is closed
//! ```
//! One change is made at a time, and each is made as a whole or not at all: what can be refused
//! comes before anything that others see.

mod error;
#[cfg(test)]
mod tests;
mod undo;

pub use error::ExportError;
pub(crate) use undo::Undo;

use crate::api::ExportState;
use crate::clock;
use crate::config::{DeviceConfig, ExportConfig};
use crate::daemon::Daemon;
use crate::device::{Device, ResizeError};
use crate::exports::Export;
use crate::limits::DRAIN_TIMEOUT;
use crate::opening::open_device;
use crate::tls::TlsMode;
use iopace_core::time::Nanos;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Most exports of a daemon that may be added to: more than a machine has disks. Looking for a name
/// goes through all of them.
pub const EXPORTS_MAX: usize = 1_024;

/// Clients that are ended have so long after their last answer, before they are cut.
const LAST_ANSWER: Duration = Duration::from_secs(1);

/// Whoever still looks at a device that is removed (a report, a recording) is waited for this long;
/// it is closed as soon as they let go.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// Between two looks whether somebody is gone.
const LOOK_STEP: Duration = Duration::from_millis(5);

/// How an export was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedExport {
    /// Clients that were connected to it and are ended.
    pub ended_count: usize,
    /// What became of its device.
    pub device: RemovedDevice,
    /// The disk refused before what had been written by then: some of that may be lost.
    pub may_be_lost: bool,
}

/// What became of the device of an export that was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovedDevice {
    /// It stays open: it was there from the start, or something else uses it.
    Open,
    /// All that was written is durable, and its file is closed.
    Closed,
    /// The same, but for its file, which is closed as soon as whoever still looks at it lets go.
    Closing,
}

impl Daemon {
    /// Exports a device that is open, or that is opened for it, under a new name.
    ///
    /// # Errors
    /// See [`ExportError`]; nothing is changed then.
    pub fn add_export(
        &self,
        export: ExportConfig,
        device: Option<&DeviceConfig>,
    ) -> Result<(), ExportError> {
        let _alone = self.alone();
        self.check_new(&export)?;
        let mut undo = Undo::new(self);
        if let Some(config) = device {
            undo.open(config)?;
        }
        let added = self.publish(export)?;
        undo.keep();
        tracing::info!(
            export = added.config.name,
            device = added.config.device,
            opened = device.is_some(),
            "export added"
        );
        Ok(())
    }

    /// Whether there may be one more export of this name.
    pub(crate) fn check_new(&self, export: &ExportConfig) -> Result<(), ExportError> {
        let all = self.export_table().all();
        check_name(&export.name)?;
        if all.iter().any(|known| known.config.name == export.name) {
            return Err(ExportError::Exists(export.name.clone()));
        }
        if all.len() >= EXPORTS_MAX {
            return Err(ExportError::TooMany);
        }
        if export.needs_tls && self.config.tls.mode == TlsMode::Off {
            return Err(ExportError::NoTls(export.name.clone()));
        }
        match self.frontends.iter().any(|frontend| frontend.takes_exports()) {
            true => Ok(()),
            false => Err(ExportError::NoSocket),
        }
    }

    /// Opens a device, which nobody knows yet.
    pub(crate) fn open_new(&self, config: &DeviceConfig) -> Result<Arc<dyn Device>, ExportError> {
        check_name(&config.name)?;
        if self.device(&config.name).is_some() {
            return Err(ExportError::DeviceExists(config.name.clone()));
        }
        Ok(open_device(config, self.config.io_engine, &self.timers)?)
    }

    /// All learn of a device.
    pub(crate) fn take_in(
        &self,
        config: &DeviceConfig,
        device: &Arc<dyn Device>,
    ) -> Result<(), ExportError> {
        self.live.add(&**device);
        self.dirty.add(config, device).map_err(ExportError::Threads)?;
        self.groups.add_device(device);
        self.added().insert(config.name.clone());
        Ok(())
    }

    /// Everybody forgets a device, whose data are durable, and its file is closed.
    pub(crate) fn let_go(&self, name: &str) -> RemovedDevice {
        let Some(device) = self.forget_device(name) else { return RemovedDevice::Closed };
        let open = device.let_go();
        drop(device);
        match wait_until(CLOSE_PATIENCE, || open.strong_count() == 0) {
            true => RemovedDevice::Closed,
            false => RemovedDevice::Closing,
        }
    }

    /// Everybody forgets a device, whose data are durable; its file is open as long as the result.
    pub(crate) fn forget_device(&self, name: &str) -> Option<Arc<dyn Device>> {
        let device = self.device(name)?;
        self.groups.remove_device(name);
        self.dirty.remove(&*device);
        self.added().remove(name);
        self.unflushed().remove(name);
        Some(device)
    }

    /// Clients see an export of a device that is open.
    pub(crate) fn publish(&self, config: ExportConfig) -> Result<Export, ExportError> {
        let device = self.device(&config.device).ok_or_else(|| {
            let devices = self.devices();
            let known = devices.iter().map(|device| device.info().name.clone()).collect();
            ExportError::NoDevice { name: config.device.clone(), known }
        })?;
        if device.info().size().is_none() {
            return Err(ExportError::Directory(config.device));
        }
        let exports = self.export_table();
        let number = exports.next_number();
        self.groups.add_export(number, &config.name, &config.group)?;
        let export = Export { number, config, device };
        exports.add(export.clone());
        Ok(export)
    }

    /// Removes an export; one that clients are connected to only if they are to be ended, after
    /// what they have asked for is answered. A device that was opened for exports and has none left
    /// is closed.
    ///
    /// # Errors
    /// See [`ExportError`]; nothing is changed then, but that clients may be ended.
    pub fn remove_export(
        &self,
        name: &str,
        disconnects: bool,
    ) -> Result<RemovedExport, ExportError> {
        let _alone = self.alone();
        let mut undo = Undo::new(self);
        let export = undo.close(name, disconnects)?;
        let ended_count = self.end_clients(export.number);
        let ended_count =
            ended_count.map_err(|count| ExportError::Stuck { name: name.into(), count })?;
        let (number, device) = (export.number, export.config.device.clone());
        let closes = self.added().contains(&device) && !self.is_used(&device, number);
        let may_be_lost = closes && self.make_durable(&*export.device)?;
        drop(export);
        self.withdraw(number);
        undo.keep();
        let became = if closes { self.let_go(&device) } else { RemovedDevice::Open };
        tracing::info!(export = name, device, ended_count, ?became, "export removed");
        Ok(RemovedExport { ended_count, device: became, may_be_lost })
    }

    /// Makes a device durable that is to be closed. True if that failed before: the disk tells that
    /// once, and takes what comes after it, so what was written by then may be lost.
    pub(crate) fn make_durable(&self, device: &dyn Device) -> Result<bool, ExportError> {
        let name = device.info().name.clone();
        if let Err(error) = device.flush_all() {
            self.unflushed().insert(name.clone());
            return Err(ExportError::Unflushed { name, error });
        }
        let may_be_lost = self.unflushed().contains(&name);
        if may_be_lost {
            tracing::error!(device = name, "closed, and what was written last may be lost");
        }
        Ok(may_be_lost)
    }

    /// An export that is closed, and which no client has open, is seen no more.
    pub(crate) fn withdraw(&self, number: usize) {
        self.export_table().remove(number);
        self.groups.remove_export(number);
    }

    /// Whether another export than this one is of the device.
    pub(crate) fn is_used(&self, device: &str, but: usize) -> bool {
        let all = self.export_table().all();
        all.iter().any(|one| one.config.device == device && one.number != but)
    }

    /// Ends the clients that have an export open, which nobody opens any more. How many there were;
    /// an error with how many cannot be ended.
    fn end_clients(&self, number: usize) -> Result<usize, usize> {
        let those = || self.groups.connections_of(number);
        let ended = those();
        let end = |numbers: &BTreeSet<u64>, is_cut| {
            self.frontends.iter().for_each(|frontend| frontend.end_some(numbers, is_cut));
        };
        end(&ended, false);
        if !wait_until(DRAIN_TIMEOUT + LAST_ANSWER, || those().is_empty()) {
            let left = those();
            tracing::warn!("{} clients did not take their answers and were cut", left.len());
            end(&left, true);
            // They hold nothing up any more but a request that the disk has.
            wait_until(DRAIN_TIMEOUT + LAST_ANSWER, || those().is_empty());
        }
        match those().len() {
            0 => Ok(ended.len()),
            stuck => Err(stuck),
        }
    }

    /// Has the device of an export reach as far as its file or disk does by now; a file is made
    /// `to` bytes long first, if that is named. The size before, and the size now, in bytes.
    ///
    /// # Errors
    /// See [`ExportError`]; nothing is changed then.
    pub fn resize_export(&self, name: &str, to: Option<u64>) -> Result<(u64, u64), ExportError> {
        let _alone = self.alone();
        let export = self.export_named(name)?;
        let device = &export.device;
        let before = device.size_bytes();
        let resized = match device.resize(to, false) {
            Err(ResizeError::InUse { .. }) => {
                // Unless nobody uses it, and nobody comes meanwhile.
                let mut undo = Undo::new(self);
                let all = self.export_table().all();
                let mut of_device = all.iter().filter(|one| Arc::ptr_eq(&one.device, device));
                let is_free = of_device.all(|one| undo.close(&one.config.name, false).is_ok());
                device.resize(to, is_free)
            }
            resized => resized,
        };
        let name_of = || export.config.device.clone();
        let now = resized.map_err(|error| ExportError::Size { name: name_of(), error })?;
        if now != before {
            tracing::info!(export = name, device = export.config.device, before, now, "resized");
        }
        Ok((before, now))
    }

    /// The exports as they stand.
    pub fn export_states(&self) -> Vec<ExportState> {
        let (all, groups) = (self.export_table().all(), self.groups.export_groups());
        let added = self.added().clone();
        let state = |Export { number, config, device }: &Export| {
            let info = device.info();
            let path = info.path.as_ref().map(|path| path.display().to_string());
            // One that is gone by now is not told of.
            let group = groups.get(number)?.clone();
            Some(ExportState {
                name: config.name.clone(),
                device: config.device.clone(),
                path: path.or_else(|| Some(device.status().remote?.uri)),
                size_bytes: device.size_bytes(),
                read_only: config.read_only || info.read_only,
                require_tls: config.needs_tls,
                group,
                connections_count: self.groups.connections_of(*number).len(),
                opened: added.contains(&config.device),
            })
        };
        all.iter().filter_map(state).collect()
    }

    pub(crate) fn export_named(&self, name: &str) -> Result<Export, ExportError> {
        self.export_table().find(name).ok_or_else(|| {
            let all = self.export_table().all();
            let known = all.iter().map(|export| export.config.name.clone()).collect();
            ExportError::NoExport { name: name.into(), known }
        })
    }

    /// What holds an export that no NBD client is, as long as the daemon runs.
    pub(crate) fn pinned(&self, export: &Export) -> Option<&'static str> {
        let Export { number, config, .. } = export;
        // Those that were there when the files were shown.
        let is_first = *number < self.config.exports.len();
        if config.vhost_user.is_some() {
            Some("the disk of a virtual machine, at a socket of its own")
        } else if is_first && self.config.fuse.is_some() {
            Some("shown as a file (fuse)")
        } else if *number == 0 && self.ublk.is_served() {
            Some("attached as a ublk device")
        } else {
            None
        }
    }
}

/// Whether a device or export may have this name.
fn check_name(name: &str) -> Result<(), ExportError> {
    let legal = |c: char| !c.is_control() && c != '/';
    match !name.is_empty() && name.len() <= 255 && name.chars().all(legal) {
        true => Ok(()),
        false => Err(ExportError::Name),
    }
}

/// Waits for a condition, at most so long; whether it came.
fn wait_until(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let patience = Nanos(u64::try_from(patience.as_nanos()).expect("seconds"));
    let deadline = clock::now() + patience;
    loop {
        if is_so() {
            return true;
        }
        if clock::until(deadline).unwrap_or_default().is_zero() {
            return false;
        }
        thread::sleep(LOOK_STEP);
    }
}
