//! A device with a real engine and no disk.

use crate::below::Below;
use crate::config::{Backend, DaemonConfig, DeviceConfig};
use crate::daemon::Daemon;
use crate::device::events::is_exchange;
use crate::device::{Device, DeviceInfo, DeviceStatus, EventLog, Look, MemoryStatus};
use crate::io::file::Allocation;
use crate::job::Job;
use crate::timer::Tick;
use iopace_core::engine::{Config, Control, ControlError, Engine, Output};
use iopace_core::pace::Thresholds;
use iopace_core::request::{Extent, GroupId};
use iopace_core::stats::Histogram;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use std::io;
use std::sync::{Arc, Mutex};

/// What may be dirty.
const MEMORY: Thresholds =
    Thresholds { background: Bytes::from_mib(10), limit: Bytes::from_mib(20) };

pub(super) struct Fake {
    info: DeviceInfo,
    inner: Mutex<(Engine, Histogram, EventLog)>,
}

impl Fake {
    /// A device; one named `direct` bypasses the page cache, one named `capped` gives each group
    /// four slots, one named `volume` is 253:0 on the disk 8:0.
    pub(super) fn device(name: &str) -> Arc<dyn Device> {
        let info = DeviceInfo {
            name: name.into(),
            kind: "emulated",
            path: None,
            model: Some("null".into()),
            size_bytes: 1 << 30,
            read_only: false,
            direct: name == "direct",
            rotational: true,
            io_engine: "model",
            base: "fifo",
            block_bytes: (1, 4096),
            nr_group_requests: (name == "capped").then_some(4),
            bytes_s_max: Some(100_000_000),
            below: (name == "volume").then(|| Below::numbered(&["253:0", "8:0"])),
        };
        let engine = Engine::new(Config { memory: MEMORY, ..Config::default() });
        let events = EventLog::new(name.into());
        Arc::new(Fake { info, inner: Mutex::new((engine, Histogram::default(), events)) })
    }
}

/// A device for tests elsewhere.
pub(crate) fn fake_device(name: &str) -> Arc<dyn Device> {
    Fake::device(name)
}

/// A whole daemon with one device, named `disk`.
pub(in crate::control) fn null_daemon() -> Arc<Daemon> {
    let backend = Backend::Emulated { model: "null".into(), store: None, size: None, cache: None };
    let devices = vec![DeviceConfig::new("disk", backend)];
    Daemon::start(DaemonConfig { devices, ..DaemonConfig::default() }).expect("starts")
}

impl Tick for Fake {
    fn tick(&self) {}
}

impl Device for Fake {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn submit(&self, _jobs: &mut Vec<Job>) {}

    fn allocation(&self, extent: Extent) -> io::Result<Vec<Allocation>> {
        Ok(vec![Allocation { len_bytes: extent.len().get(), is_hole: false }])
    }

    fn control(&self, control: Control) -> Result<(), ControlError> {
        let mut inner = self.inner.lock().expect("no test panics with it");
        let (engine, hold_up, events) = &mut *inner;
        let is_exchange = is_exchange(&control);
        engine.control(Instant(1), control)?;
        if is_exchange {
            hold_up.record(Nanos(700));
        }
        loop {
            match engine.poll(Instant(1)) {
                Output::Event(event) => events.add(*event),
                Output::Wait(..) => return Ok(()),
                other => panic!("nothing was submitted, but {other:?}"),
            }
        }
    }

    fn look(&self, look: &mut Look<'_>) {
        let (engine, _, events) = &mut *self.inner.lock().expect("no test panics with it");
        look(engine, events);
    }

    fn forget_group(&self, id: GroupId) -> bool {
        self.control(Control::RemoveGroup(id)).expect("a group may always be removed");
        self.inner.lock().expect("no test panics with it").0.is_group_forgotten(id)
    }

    fn status(&self) -> DeviceStatus {
        let inner = self.inner.lock().expect("no test panics with it");
        DeviceStatus {
            engine: inner.0.status(),
            stats: inner.0.stats(),
            cached_reads_count: 3,
            buffered_writes_count: 4,
            hold_up: inner.1.clone(),
            events: inner.2.kept(),
            failed: inner.2.failed_scheduler(),
            memory: (!self.info.direct).then(|| MemoryStatus::of(&inner.0, MEMORY)),
            window: inner.0.window_picture(),
            has_host_share: inner.0.queue_totals().is_some(),
            remote: None,
        }
    }

    fn flush_all(&self) -> io::Result<()> {
        Ok(())
    }
}
