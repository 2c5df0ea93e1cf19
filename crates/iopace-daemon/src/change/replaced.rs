//! A policy that was loaded in the place of another one of its name comes to the devices that have
//! the former one.

use super::{Refusal, check_untried, conflict, illegal};
use crate::device::{Device, DeviceStatus, FailedScheduler};
use iopace_core::engine::{Control, ControlError};
use iopace_core::sched::{Algorithm, Changes, Params};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// A device that has another build, or fifo in the place of one that failed.
struct PolicyDevice<'a> {
    device: &'a dyn Device,
    /// The scheduler at work, and its parameters.
    at_work: (&'static Algorithm, Params),
    /// The one that fifo stands in for.
    failed: Option<FailedScheduler>,
}

/// Puts a policy in the place of every other build of its name, also where fifo stands in for one
/// that failed, be it this one. Parameters are kept where the new one has them and their values are
/// legal there. All devices are exchanged, or none.
///
/// # Errors
/// Another build is tried beside a device, or the new one does not start on one; every device has
/// what it had, but for what a scheduler learns.
pub(crate) fn exchange_policy(
    devices: &[Arc<dyn Device>],
    new: &'static Algorithm,
) -> Result<(), Refusal> {
    check_untried(devices, new.name, Some(new))?;
    let users: Vec<PolicyDevice<'_>> =
        devices.iter().filter_map(|device| PolicyDevice::of(&**device, new)).collect();
    // One that does not start is found before any device is touched.
    users.iter().try_for_each(|user| user.check_starts(new))?;
    for (place, user) in users.iter().enumerate() {
        let PolicyDevice { device, .. } = user;
        if let Err(error) = device.control(Control::Configure(Some(new), user.kept(new))) {
            users[..place].iter().for_each(PolicyDevice::restore);
            return Err(conflict(*device, &error));
        }
        tracing::info!(device = device.info().name, policy = new.name, "policy exchanged");
    }
    Ok(())
}

impl PolicyDevice<'_> {
    fn of<'a>(device: &'a dyn Device, new: &'static Algorithm) -> Option<PolicyDevice<'a>> {
        let DeviceStatus { engine, failed, .. } = device.status();
        let algorithm = engine.algorithm;
        let has_other = algorithm.name == new.name && !std::ptr::eq(algorithm, new);
        let stands_in = failed.as_ref().is_some_and(|failed| failed.name == new.name);
        let is_user = engine.inserted && (has_other || stands_in);
        is_user.then_some(PolicyDevice { device, at_work: (algorithm, engine.params), failed })
    }

    /// The parameters that the new one has as well, with values that are legal there.
    fn kept(&self, new: &Algorithm) -> Changes {
        let is_legal = |(name, value): &(&str, u64)| {
            let spec = new.params.iter().find(|spec| spec.name == *name);
            spec.is_some_and(|spec| (spec.min..=spec.max).contains(value))
        };
        let former: Vec<(&str, u64)> = match &self.failed {
            Some(failed) => failed.params.clone(),
            None => self.at_work.1.iter().map(|(spec, value)| (spec.name, value)).collect(),
        };
        former.into_iter().filter(is_legal).map(|(name, value)| (name.into(), value)).collect()
    }

    /// Whether the new one starts with the parameters of this device.
    fn check_starts(&self, new: &'static Algorithm) -> Result<(), Refusal> {
        let mut params = new.defaults();
        params.merge(&self.kept(new)).map_err(|error| illegal(new.name, &error))?;
        catch_unwind(AssertUnwindSafe(|| drop((new.build)(&params))))
            .map_err(|_| conflict(self.device, &ControlError::BuildFailed(new.name)))
    }

    /// Puts back what was at work, and what that stands in for.
    fn restore(&self) {
        let (algorithm, params) = (self.at_work.0, &self.at_work.1);
        let control = Control::Configure(Some(algorithm), params.changes());
        if let Err(error) = self.device.control(control) {
            let device = &self.device.info().name;
            tracing::error!(device, %error, "the former policy cannot be put back");
            return;
        }
        if let Some(failed) = &self.failed {
            self.device.look(&mut |_, events| events.put_back_failed(failed.clone()));
        }
    }
}
