//! From a configuration to open devices and exports.

use crate::change::recommend;
use crate::config::{
    Backend, DaemonConfig, DeviceConfig, ExportConfig, IoEngineChoice, check_dirty,
};
use crate::device::Device;
use crate::device::emulated::EmulatedDevice;
use crate::device::file::FileDevice;
use crate::device::remote::RemoteDevice;
use crate::exports::Resolved;
use crate::fuse::mounts::Prepared;
use crate::start_error::StartError;
use crate::timer::Timers;
use iopace_core::engine::Control;
use iopace_core::sched::{self, AUTO};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Opens the devices, in the order of the configuration, and then those of the mounts.
pub(crate) fn open_devices(
    config: &DaemonConfig,
    mounts: &mut [Prepared],
    timers: &Arc<Timers>,
) -> Result<Vec<Arc<dyn Device>>, StartError> {
    if config.devices.is_empty() && config.mounts.is_empty() {
        return Err(StartError::NoDevice);
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = config.all_devices().find(|device| !names.insert(&device.name)) {
        return Err(StartError::TwoDevices(twice.name.clone()));
    }
    let mut devices: Vec<Arc<dyn Device>> = Vec::new();
    for device in &config.devices {
        devices.push(open_device(device, config.io_engine, timers)?);
    }
    for mount in mounts {
        check_memory(mount.device_config())?;
        let choice = (config.io_engine, config.memory_max.get());
        let opened = mount.open_device(choice, timers)?;
        insert_scheduler(mount.device_config(), &*opened)?;
        devices.push(opened);
    }
    Ok(devices)
}

/// Opens one device, with its scheduler.
pub(crate) fn open_device(
    config: &DeviceConfig,
    choice: IoEngineChoice,
    timers: &Arc<Timers>,
) -> Result<Arc<dyn Device>, StartError> {
    check_memory(config)?;
    let opened: Arc<dyn Device> = match &config.backend {
        Backend::Path(path) => FileDevice::open(config, path, choice, timers)?,
        Backend::Emulated { .. } => EmulatedDevice::open(config, timers)?,
        Backend::Remote { uri, patience } => RemoteDevice::open(config, uri, *patience, timers)?,
        Backend::Directory { path, .. } => {
            let error = std::io::Error::from(std::io::ErrorKind::IsADirectory);
            return Err(StartError::open(path, &error));
        }
    };
    insert_scheduler(config, &*opened)?;
    Ok(opened)
}

/// Settings of dirty memory that cannot be, or that nothing would come of.
fn check_memory(device: &DeviceConfig) -> Result<(), StartError> {
    let DeviceConfig { name, direct, dirty_limit, dirty_background, .. } = device;
    let checked = if *direct && (dirty_limit.is_some() || dirty_background.is_some()) {
        Err("it bypasses the page cache (direct), so no write of it is buffered: leave out its \
             dirty limits, or 'direct'"
            .to_owned())
    } else {
        check_dirty(*dirty_limit, *dirty_background)
    };
    checked.map_err(|error| StartError::Setting(format!("device '{name}': {error}")))
}

fn insert_scheduler(config: &DeviceConfig, device: &dyn Device) -> Result<(), StartError> {
    if let Some(change) = &config.recommend {
        let name = &config.name;
        let wrong = |refusal| StartError::Setting(format!("device '{name}': {refusal}"));
        recommend::apply(device, change).map_err(wrong)?;
    }
    let Some((name, settings)) = &config.scheduler else {
        return Ok(());
    };
    if name == AUTO && settings.is_empty() {
        return Ok(());
    }
    let algorithm = sched::find(name).ok_or_else(|| StartError::NoScheduler(name.clone()))?;
    let mut params = algorithm.defaults();
    for (name, value) in settings {
        params.set(name, *value).map_err(|error| StartError::Setting(error.to_string()))?;
    }
    device
        .control(Control::Insert(algorithm, params))
        .map_err(|error| StartError::Setting(error.to_string()))
}

/// Where no export is configured, each device has one of its name.
pub(crate) fn name_exports(config: &mut DaemonConfig) {
    let of_its_name = |device: &DeviceConfig| {
        let name = device.name.clone();
        ExportConfig::new(name.clone(), name)
    };
    if config.exports.is_empty() {
        config.exports = config.devices.iter().map(of_its_name).collect();
    }
}

pub(crate) fn resolve_exports(
    config: &DaemonConfig,
    devices: &[Arc<dyn Device>],
) -> Result<Vec<Resolved>, StartError> {
    let mut exports: Vec<Resolved> = Vec::new();
    for export in &config.exports {
        let found = config.devices.iter().position(|device| device.name == export.device);
        let device = found.ok_or_else(|| StartError::NoSuchDevice {
            export: export.name.clone(),
            device: export.device.clone(),
        })?;
        if exports.iter().any(|(known, _)| known.name == export.name) {
            return Err(StartError::TwoExports(export.name.clone()));
        }
        exports.push((export.clone(), Arc::clone(&devices[device])));
    }
    Ok(exports)
}
