//! Writes to files of groups: all lines or none. A device may be named by the kernel's number of
//! its disk, `MAJ:MIN`, as in files of cgroup v2.

use super::{GroupError, Groups};
use crate::below::Below;
use crate::device_table::names;
use std::borrow::Cow;

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

    /// The names of the devices that are on the disk that the kernel knows by a number, `8:0`.
    pub(super) fn names_on(&self, number: &str) -> Vec<String> {
        let devices = self.devices();
        let infos = devices.iter().map(|device| device.info());
        let is_on = |below: &Below| below.has_number(number);
        let on_it = infos.filter(|info| info.below.as_ref().is_some_and(is_on));
        on_it.map(|info| info.name.clone()).collect()
    }

    fn write_to(
        &self,
        path: &str,
        file: &str,
        text: &str,
        makes: bool,
    ) -> Result<Vec<String>, GroupError> {
        // Devices come and go under this lock only.
        let mut state = self.lock();
        let text = &by_name(text, |number| self.names_on(number))?;
        let devices = self.devices();
        let names = &*names(&devices);
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

/// The lines with the names of devices in the place of the kernel's numbers; `on` names the devices
/// that are on the disk of a number. A number of a disk on which no device is stays as it is.
///
/// # Errors
/// Several devices are on that disk.
pub fn by_name(text: &str, on: impl Fn(&str) -> Vec<String>) -> Result<Cow<'_, str>, GroupError> {
    if !text.lines().any(|line| number(line).is_some()) {
        return Ok(Cow::Borrowed(text));
    }
    let mut named = String::new();
    for line in text.lines() {
        if let Some(number) = number(line) {
            let known = on(number);
            match &*known {
                [] => named.push_str(line),
                [name] => named.push_str(&line.replacen(number, name, 1)),
                _ => return Err(GroupError::SeveralOn { number: number.into(), known }),
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
        let on = |number: &str| match number {
            "8:16" => vec!["slow".to_owned()],
            "8:32" => vec!["a".to_owned(), "b".to_owned()],
            _ => Vec::new(),
        };
        assert!(matches!(by_name("disk rbps=1", on), Ok(Cow::Borrowed("disk rbps=1"))));
        assert_eq!(by_name(text, on).expect("nothing is on it").trim_end(), text);
        let lines = "8:16 rbps=1\n disk wbps=2\n 8:16 default\n";
        assert_eq!(by_name(lines, on).expect("one"), "slow rbps=1\n disk wbps=2\n slow default\n");
        assert!(matches!(by_name("8:32 max", on), Err(GroupError::SeveralOn { .. })));
    }
}
