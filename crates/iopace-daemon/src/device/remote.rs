//! A disk of another NBD server behind an engine.
//!
//! All requests are direct: there is no page cache here, and nothing is buffered. What the engine
//! starts is sent (`io/remote/`), and each answer is handled by the thread that receives it.

use super::beginning::engine_config;
use super::file::{Drained, RealDisk, complete};
use super::shell::{Behind, Caller, Shell, registered};
use super::{Device, DeviceInfo, thresholds};
use crate::answer::Touched;
use crate::config::DeviceConfig;
use crate::io::remote::{OpenedExport, RemoteDisk, RemoteListener, RemoteNews};
use crate::io::{Completions, IoDone, IoRequest};
use crate::limits::{DIRTY_FALLBACK, FILE_WINDOW_DEFAULT};
use crate::nbd_uri::NbdUri;
use crate::start_error::StartError;
use crate::timer::Timers;
use iopace_core::engine::{Config, Start};
use iopace_core::request::Op;
use iopace_core::sched;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use iopace_disk::pump::Pump;
use iopace_nbd::wire;
use std::sync::{Arc, Weak};

/// The device.
pub struct RemoteDevice {
    disk: RemoteDisk,
    shell: Shell<RealDisk>,
}

impl RemoteDevice {
    /// Connects to the server and opens its export; requests wait for `patience` without a
    /// connection later, or for ever.
    ///
    /// # Errors
    /// No connection, the server's refusal, or an export that is read-only.
    pub fn open(
        config: &DeviceConfig,
        uri: &NbdUri,
        patience: Option<Nanos>,
        timers: &Arc<Timers>,
    ) -> Result<Arc<RemoteDevice>, StartError> {
        let opened = RemoteDisk::open(uri);
        let opened = opened.map_err(|error| StartError::remote(uri, &error))?;
        let is_read_only = opened.session.flags & wire::READ_ONLY != 0;
        if is_read_only && !config.read_only {
            return Err(StartError::RemoteReadOnly(uri.to_string()));
        }
        let memory = thresholds(config, DIRTY_FALLBACK);
        let info = info(config, &opened);
        let engine = Config {
            capacity: Bytes(info.size_bytes),
            rotational: Some(info.rotational),
            ..engine_config(config, FILE_WINDOW_DEFAULT, memory)
        };
        let pump = Pump::new(engine, RealDisk { buffered: false });
        let shell = Shell::new((info, None), pump, memory, timers);
        let disk = RemoteDisk::new(uri, &opened, patience);
        let device = registered(Arc::new(RemoteDevice { disk, shell }));
        let this: Weak<RemoteDevice> = Arc::downgrade(&device);
        let this: Weak<dyn RemoteListener> = this;
        device.disk.start(opened, &this).map_err(StartError::Threads)?;
        Ok(device)
    }
}

fn info(config: &DeviceConfig, opened: &OpenedExport) -> DeviceInfo {
    let [min, best, _] = opened.session.block_sizes.unwrap_or([1, 4096, 0]);
    DeviceInfo {
        name: config.name.clone(),
        kind: "remote",
        path: None,
        model: None,
        size_bytes: opened.session.size_bytes,
        read_only: config.read_only,
        direct: true,
        rotational: opened.session.flags & wire::ROTATIONAL != 0,
        io_engine: "nbd",
        base: sched::recommended().name,
        block_bytes: (min, best),
        nr_group_requests: config.nr_group_requests,
        bytes_s_max: None,
        below: None,
    }
}

impl Behind for RemoteDevice {
    type Disk = RealDisk;

    fn shell(&self) -> &Shell<RealDisk> {
        &self.shell
    }

    fn remote(&self) -> Option<&RemoteDisk> {
        Some(&self.disk)
    }

    /// Answers what has finished, and hands what was started to the sending thread.
    fn carry_out(&self, mut drained: Drained, _: Caller) {
        let mut touched = Touched::default();
        drained.finish(&mut touched);
        touched.send();
        debug_assert!(drained.portions.is_empty(), "nothing is buffered");
        if drained.starts.is_empty() {
            return;
        }
        self.disk.start_all(drained.starts.into_iter().map(|(start, mut buffer, target)| {
            let Start { id, tag, op, extent, fua, class, write_back, .. } = start;
            if op == Op::Read {
                buffer.resize(extent.len().get() as usize);
            }
            let key = tag.0 as usize;
            IoRequest { id, key, op, extent, fua, class, write_back, target, buffer }
        }));
    }
}

impl Completions for RemoteDevice {
    fn completed(&self, done: &mut Vec<IoDone>) {
        self.turn(Caller::Busy, |inner, now, _| {
            done.drain(..).for_each(|done| complete(inner, now, done));
        });
    }
}

impl RemoteListener for RemoteDevice {
    fn told(&self, news: RemoteNews) {
        self.look(&mut |_, events| match &news {
            RemoteNews::Lost(text) => events.disk_lost(text),
            RemoteNews::Back(text) => events.disk_back(text),
        });
    }
}
