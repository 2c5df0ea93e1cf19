//! The policies that a configuration file has loaded.

use super::document::Document;
use crate::output::Failure;
use iopace_core::sched::REGISTRY;
use iopace_daemon::api::{DeviceReport, LoadedPolicy};
use std::path::{Path, PathBuf};
use toml_edit::{Array, Item, Value};

const KEY: &str = "policies";

impl Document {
    /// Names the file of a policy, if it is not named yet.
    ///
    /// # Errors
    /// The policy came without the path of its file, or the file has its policies in another form
    /// than a list.
    pub fn add_policy(&mut self, policy: &LoadedPolicy) -> Result<(), Failure> {
        match self.settings.policies.iter().any(|known| known.name == policy.name) {
            true => Ok(()),
            false => self.push_policy(policy),
        }
    }

    /// Names the file of a policy, in the place of another file that its name is from.
    ///
    /// # Errors
    /// As of [`Document::add_policy`].
    pub fn replace_policy(&mut self, policy: &LoadedPolicy) -> Result<(), Failure> {
        let mut known = self.settings.policies.iter();
        if known.any(|known| known.name == policy.name && known.path == Path::new(&policy.path)) {
            return Ok(());
        }
        self.remove_policy(&policy.name)?;
        self.push_policy(policy)
    }

    fn push_policy(&mut self, policy: &LoadedPolicy) -> Result<(), Failure> {
        if !Path::new(&policy.path).is_absolute() {
            return Err(Failure::new(format!(
                "policy '{}' was loaded without the path of its file: unload it, and load it with \
                 'iopace sched load FILE --save'",
                policy.name
            )));
        }
        self.policy_list()?.push(policy.path.as_str());
        Ok(())
    }

    /// Names the policy that a device has as its scheduler.
    ///
    /// # Errors
    /// As of [`Document::add_policy`].
    pub fn policy_of(
        &mut self,
        device: &DeviceReport,
        loaded: &[LoadedPolicy],
    ) -> Result<(), Failure> {
        let name = &device.scheduler.algorithm;
        let is_loaded = REGISTRY.iter().all(|algorithm| algorithm.name != name);
        let policy = loaded.iter().find(|policy| is_loaded && policy.name == *name);
        policy.map_or(Ok(()), |policy| self.add_policy(policy))
    }

    /// Names the policies that are loaded, and no others.
    ///
    /// # Errors
    /// The file has its policies in another form than a list.
    pub fn policies(&mut self, loaded: &[LoadedPolicy]) -> Result<(), Failure> {
        let said = self.settings.policies.iter().map(|policy| policy.name.clone());
        let gone: Vec<String> =
            said.filter(|name| loaded.iter().all(|policy| policy.name != *name)).collect();
        gone.iter().try_for_each(|name| self.remove_policy(name))?;
        let with_file = loaded.iter().filter(|policy| Path::new(&policy.path).is_absolute());
        with_file.into_iter().try_for_each(|policy| self.add_policy(policy))
    }

    /// Names a policy no more.
    ///
    /// # Errors
    /// The file has its policies in another form than a list.
    pub fn remove_policy(&mut self, name: &str) -> Result<(), Failure> {
        let known = self.settings.policies.iter().find(|policy| policy.name == name);
        let Some(path) = known.map(|policy| policy.path.clone()) else { return Ok(()) };
        let base = self.path.parent().unwrap_or(Path::new("")).to_owned();
        let list = self.policy_list()?;
        list.retain(|value| {
            value.as_str().map(|word| base.join(word)) != Some(PathBuf::clone(&path))
        });
        if list.is_empty() {
            self.text.remove(KEY);
        }
        Ok(())
    }

    fn policy_list(&mut self) -> Result<&mut Array, Failure> {
        let form = format!("{}: `{KEY}` is a list of paths", self.path.display());
        let list = self.text.entry(KEY).or_insert(Item::Value(Value::Array(Array::new())));
        list.as_array_mut().ok_or_else(|| Failure::new(form))
    }
}
