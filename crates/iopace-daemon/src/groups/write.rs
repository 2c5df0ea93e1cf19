//! Writes to files of groups: all lines or none. A device may be named by the kernel's number of
//! its disk, `MAJ:MIN`, as in files of cgroup v2.

use super::{GroupError, Groups};
use crate::device::Device;
use crate::device_table::names;
use std::borrow::Cow;
use std::sync::Arc;

impl Groups {
    /// Writes lines to a file of a group, all or none, and tells the devices. Returns the names of
    /// those on which something else holds now.
    ///
    /// # Errors
    /// No such group; or which line is wrong, and what would be right.
    pub fn write(&self, path: &str, file: &str, text: &str) -> Result<Vec<String>, GroupError> {
        self.write_to(path, file, text, false)
    }

    /// The same of a group that is made, with those above it, if it is missing; none is made if the
    /// lines are refused.
    ///
    /// # Errors
    /// A group that cannot be made; or which line is wrong, and what would be right.
    pub fn write_making(
        &self,
        path: &str,
        file: &str,
        text: &str,
    ) -> Result<Vec<String>, GroupError> {
        self.write_to(path, file, text, true)
    }

    fn write_to(
        &self,
        path: &str,
        file: &str,
        text: &str,
        makes: bool,
    ) -> Result<Vec<String>, GroupError> {
        let devices = self.devices();
        let names = &*names(&devices);
        let text = &by_name(text, &devices)?;
        let mut state = self.lock();
        let id = match state.tree.find(path) {
            Err(_) if makes => {
                let mut tried = state.tree.clone();
                let id = tried.create_all(path)?;
                tried.write(id, file, text, names)?;
                self.create_in(&mut state, path, true)?
            }
            found => found?,
        };
        let changed = state.tree.write(id, file, text, names)?;
        if makes {
            state.made.for_good(id);
        }
        state.made.keep(id);
        for device in devices.iter() {
            if changed.devices.contains(&device.info().name) {
                Groups::tell(&state, &**device, id);
            }
        }
        self.retry(&mut state, id);
        Ok(changed.devices)
    }
}

/// The lines with the names of devices in the place of the kernel's numbers. A number of a disk on
/// which no device is stays as it is.
///
/// # Errors
/// Several devices are on that disk.
fn by_name<'a>(text: &'a str, devices: &[Arc<dyn Device>]) -> Result<Cow<'a, str>, GroupError> {
    if !text.lines().any(|line| number(line).is_some()) {
        return Ok(Cow::Borrowed(text));
    }
    let is_on = |device: &&Arc<dyn Device>, number: &str| {
        device.info().below.as_ref().is_some_and(|below| below.has_number(number))
    };
    let mut named = String::new();
    for line in text.lines() {
        if let Some(number) = number(line) {
            let on_it = devices.iter().filter(|device| is_on(device, number));
            let names: Vec<&str> = on_it.map(|device| device.info().name.as_str()).collect();
            match &*names {
                [] => named.push_str(line),
                [name] => named.push_str(&line.replacen(number, name, 1)),
                names => {
                    let known = names.iter().map(|name| (*name).to_owned()).collect();
                    return Err(GroupError::SeveralOn { number: number.into(), known });
                }
            }
        } else {
            named.push_str(line);
        }
        named.push('\n');
    }
    Ok(Cow::Owned(named))
}

/// The number of the kernel that a line begins with.
fn number(line: &str) -> Option<&str> {
    let first = line.split_whitespace().next()?;
    let (major, minor) = first.split_once(':')?;
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    (is_number(major) && is_number(minor)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_of_the_kernel_are_replaced() {
        assert_eq!(number(" 254:0 rbps=1M"), Some("254:0"));
        for line in ["disk rbps=1M", "a:0 rbps=1", "254: rbps=1", "", "default rbps=8:0"] {
            assert_eq!(number(line), None, "{line}");
        }
        let text = "8:0 rbps=1";
        assert!(matches!(by_name("disk rbps=1", &[]), Ok(Cow::Borrowed("disk rbps=1"))));
        assert_eq!(by_name(text, &[]).expect("nothing is on it").trim_end(), text);
    }
}
