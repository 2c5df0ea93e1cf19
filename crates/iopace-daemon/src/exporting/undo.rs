//! What is done before a change is sure, and undone if it does not come.

use super::ExportError;
use crate::config::DeviceConfig;
use crate::daemon::Daemon;
use crate::exports::Export;

/// Devices that were opened and exports that were closed for newcomers. All is as before when this
/// is dropped, unless it is kept.
pub(crate) struct Undo<'a> {
    daemon: &'a Daemon,
    opened: Vec<String>,
    closed: Vec<usize>,
}

impl<'a> Undo<'a> {
    pub(crate) fn new(daemon: &'a Daemon) -> Undo<'a> {
        Undo { daemon, opened: Vec::new(), closed: Vec::new() }
    }

    /// Opens a device, which all know then, but which has no export.
    pub(crate) fn open(&mut self, config: &DeviceConfig) -> Result<(), ExportError> {
        let device = self.daemon.open_new(config)?;
        self.opened.push(config.name.clone());
        self.daemon.take_in(config, &device)
    }

    /// Nobody opens this export any more. With clients it is refused, unless they are to be ended.
    pub(crate) fn close(&mut self, name: &str, ends: bool) -> Result<Export, ExportError> {
        let export = self.daemon.export_named(name)?;
        if let Some(why) = self.daemon.pinned(&export) {
            return Err(ExportError::Pinned { name: name.into(), why });
        }
        let closed = self.daemon.groups().close_export(export.number, ends);
        closed.map_err(|connections| ExportError::InUse {
            name: name.into(),
            count: connections.len(),
        })?;
        self.closed.push(export.number);
        Ok(export)
    }

    /// The change has come: nothing is undone.
    pub(crate) fn keep(mut self) {
        self.opened.clear();
        self.closed.clear();
    }
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        for number in &self.closed {
            self.daemon.groups().reopen_export(*number);
        }
        for name in &self.opened {
            self.daemon.let_go(name);
        }
    }
}
