//! A policy that was loaded in the place of another one of its name comes to the devices that have
//! the former one.

use super::{Refusal, check_untried, conflict};
use crate::device::{Device, DeviceStatus};
use iopace_core::engine::Control;
use iopace_core::sched::{Algorithm, Changes, Params};
use std::sync::Arc;

/// A device that has the former one, or fifo in its place since it failed.
struct PolicyDevice<'a> {
    device: &'a dyn Device,
    /// The scheduler at work, and its parameters.
    at_work: (&'static Algorithm, Params),
}

/// Exchanges a policy for a new one wherever it is inserted, also where fifo stands in for it since
/// it failed. Parameters are kept where the new one has them and their values are legal there. All
/// devices are exchanged, or none.
///
/// # Errors
/// It is tried beside a device, or the new one does not start on one; every device has what it had,
/// but for what a scheduler learns.
pub(crate) fn exchange_policy(
    devices: &[Arc<dyn Device>],
    former: &'static Algorithm,
    new: &'static Algorithm,
) -> Result<(), Refusal> {
    check_untried(devices, former.name)?;
    let users: Vec<PolicyDevice<'_>> =
        devices.iter().filter_map(|device| PolicyDevice::of(&**device, former)).collect();
    for (place, PolicyDevice { device, at_work: (_, params) }) in users.iter().enumerate() {
        if let Err(error) = device.control(Control::Configure(Some(new), kept(params, new))) {
            users[..place].iter().for_each(PolicyDevice::restore);
            return Err(conflict(*device, &error));
        }
        tracing::info!(device = device.info().name, policy = new.name, "policy exchanged");
    }
    Ok(())
}

impl PolicyDevice<'_> {
    fn of<'a>(device: &'a dyn Device, former: &'static Algorithm) -> Option<PolicyDevice<'a>> {
        let DeviceStatus { engine, failed, .. } = device.status();
        let stands_in = failed.is_some_and(|failed| failed.name == former.name);
        let is_user = engine.inserted && (std::ptr::eq(engine.algorithm, former) || stands_in);
        is_user.then_some(PolicyDevice { device, at_work: (engine.algorithm, engine.params) })
    }

    /// Puts back what was at work.
    fn restore(&self) {
        let (algorithm, params) = (self.at_work.0, &self.at_work.1);
        let control = Control::Configure(Some(algorithm), params.changes());
        if let Err(error) = self.device.control(control) {
            let device = &self.device.info().name;
            tracing::error!(device, %error, "the former policy cannot be put back");
        }
    }
}

/// The parameters that the new one has as well, with values that are legal there.
fn kept(params: &Params, new: &Algorithm) -> Changes {
    let mut kept = params.changes();
    kept.retain(|name, value| {
        let spec = new.params.iter().find(|spec| spec.name == name);
        spec.is_some_and(|spec| (spec.min..=spec.max).contains(value))
    });
    kept
}
