//! Policies that a changed configuration names, or names no more.

use crate::change::check_unused;
use crate::config::{DaemonConfig, PolicyConfig};
use crate::daemon::Daemon;
use crate::loadable;

impl Daemon {
    /// Policies that are named no more go, unless a device has them. Says what has changed.
    pub(super) fn retire(&self, old: &DaemonConfig, new: &DaemonConfig) -> Vec<String> {
        let is_in = |all: &[PolicyConfig], name: &str| all.iter().any(|policy| policy.name == name);
        let mut retired = self.retired();
        retired.retain(|name| !is_in(&new.policies, name));
        let gone = old.policies.iter().filter(|policy| !is_in(&new.policies, &policy.name));
        let gone: Vec<String> = gone.map(|policy| policy.name.clone()).collect();
        retired.extend(gone.iter().cloned());
        drop(retired);
        self.unload_retired();
        let stays = gone.iter().map(|name| match loadable::find(name) {
            Some(_) => format!("policy '{name}' (configured no more, stays while in use)"),
            None => format!("policy '{name}' (unloaded)"),
        });
        let came = new.policies.iter().filter(|policy| !is_in(&old.policies, &policy.name));
        came.map(|policy| format!("policy '{}' (loaded)", policy.name)).chain(stays).collect()
    }

    /// Unloads the policies that the configuration names no more and that no device has any more.
    pub fn unload_retired(&self) {
        let mut retired = self.retired();
        if retired.is_empty() {
            return;
        }
        let devices = self.devices();
        retired.retain(|name| {
            let is_used = check_unused(&devices, name).is_err();
            if !is_used && let Err(error) = loadable::unload(name) {
                // It was unloaded by command meanwhile.
                tracing::debug!(%error, "a policy that is configured no more");
            }
            is_used
        });
    }
}
