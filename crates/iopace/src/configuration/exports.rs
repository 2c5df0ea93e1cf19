//! Exports that were added or removed by command, in the configuration file.

use super::document::Document;
use crate::output::Failure;
use iopace_daemon::api::AddExport;
use iopace_groups::files::FILES;
use toml_edit::{Array, ArrayOfTables, Item, Table, TableLike, Value, value};

impl Document {
    /// An export, and the device that was opened for it.
    ///
    /// # Errors
    /// The file has the name already, or its tables in another form.
    pub fn add_export(&mut self, added: &AddExport) -> Result<(), Failure> {
        let AddExport { name, device, path, group, read_only, require_tls, raw, direct } = added;
        let has_exports = !self.settings.exports.is_empty();
        let is_named = |known: &str| known == name;
        let taken = match has_exports {
            true => self.settings.exports.iter().any(|export| is_named(&export.name)),
            false => self.settings.devices.iter().any(|device| is_named(&device.name)),
        };
        if taken {
            return Err(self.wrong(format_args!("has an export '{name}' already")));
        }
        let others: Vec<String> =
            self.settings.devices.iter().map(|device| device.name.clone()).collect();
        if let Some(path) = path {
            if others.contains(name) {
                return Err(self.wrong(format_args!("has a device '{name}' already")));
            }
            let mut table = Table::new();
            table.insert("name", value(name));
            table.insert("file", value(path));
            for (key, is_set) in [("read-only", read_only), ("raw", raw), ("direct", direct)] {
                if *is_set {
                    table.insert(key, value(true));
                }
            }
            self.push("device", table)?;
        }
        let group = group.as_deref().unwrap_or("/");
        // A device has an export of its own name where no export is named.
        if path.is_some() && !has_exports && group == "/" && !require_tls {
            return Ok(());
        }
        if !has_exports {
            for other in &others {
                self.push("export", export(other, other))?;
            }
        }
        let mut table = export(name, device.as_deref().unwrap_or(name));
        for (key, is_set) in [("read-only", read_only), ("require-tls", require_tls)] {
            if *is_set {
                table.insert(key, value(true));
            }
        }
        if group != "/" {
            table.insert("group", value(group));
            self.name_group(group)?;
        }
        self.push("export", table)
    }

    /// An export is gone, and its device with it if that was closed.
    ///
    /// # Errors
    /// The file cannot say so, or has its tables in another form.
    pub fn remove_export(&mut self, name: &str, closed: Option<&str>) -> Result<(), Failure> {
        let has_exports = !self.settings.exports.is_empty();
        let stays = |device: &&str| closed != Some(*device);
        let devices = self.settings.devices.iter().map(|device| &*device.name);
        let devices: Vec<String> = devices.filter(stays).map(String::from).collect();
        let left: Vec<String> = match has_exports {
            true => self.settings.exports.iter().map(|export| export.name.clone()).collect(),
            false => devices.clone(),
        };
        let left: Vec<String> = left.into_iter().filter(|export| export != name).collect();
        if left.is_empty() && !devices.is_empty() {
            return Err(self.wrong(format_args!(
                "cannot say that nothing is exported (without [[export]] each device is): take \
                 the [[device]] away, or leave out --save"
            )));
        }
        if has_exports {
            self.drop_table("export", name)?;
        } else if devices.iter().any(|device| device == name) {
            for other in &left {
                self.push("export", export(other, other))?;
            }
        }
        if let Some(device) = closed {
            self.drop_table("device", device)?;
            self.forget_device(device);
        }
        Ok(())
    }

    fn wrong(&self, what: std::fmt::Arguments<'_>) -> Failure {
        Failure::new(format!("--save: {} {what}", self.path.display()))
    }

    fn tables(&mut self, kind: &str) -> Result<&mut ArrayOfTables, Failure> {
        let form = self.wrong(format_args!("has a {kind} that is none: write it as [[{kind}]]"));
        let all = self.text.entry(kind);
        let all = all.or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        all.as_array_of_tables_mut().ok_or(form)
    }

    fn push(&mut self, kind: &str, mut table: Table) -> Result<(), Failure> {
        table.decor_mut().set_prefix("\n");
        self.tables(kind)?.push(table);
        Ok(())
    }

    /// Takes away the table of that name; a device without a name has that of its file.
    fn drop_table(&mut self, kind: &str, name: &str) -> Result<(), Failure> {
        let at = match kind {
            "device" => self.settings.devices.iter().position(|device| device.name == name),
            _ => self.settings.exports.iter().position(|export| export.name == name),
        };
        let Some(at) = at else { return Ok(()) };
        let all = self.tables(kind)?;
        all.remove(at);
        if all.is_empty() {
            self.text.remove(kind);
        }
        Ok(())
    }

    /// Takes away what groups have set for a device that is there no more.
    fn forget_device(&mut self, device: &str) {
        let groups = self.text.get_mut("group").and_then(Item::as_table_like_mut);
        let Some(groups) = groups else { return };
        let tables = groups.iter_mut().filter_map(|(_, group)| group.as_table_like_mut());
        for group in tables {
            for spec in FILES.iter().filter(|spec| spec.writable) {
                forget_lines(group, spec.name, device);
            }
        }
    }
}

/// The table of an export with nothing set.
fn export(name: &str, device: &str) -> Table {
    let mut table = Table::new();
    table.insert("name", value(name));
    table.insert("device", value(device));
    table
}

/// Takes away the lines of a device from a file of a group, and the file with the last of them.
fn forget_lines(group: &mut dyn TableLike, file: &str, device: &str) {
    let is_of = |line: &str| line.split_whitespace().next() == Some(device);
    let gone = match group.get_mut(file).and_then(Item::as_value_mut) {
        Some(Value::String(text)) => is_of(text.value()),
        Some(Value::Array(lines)) => {
            let keeps = |line: &Value| !line.as_str().is_some_and(is_of);
            let kept: Array = lines.iter().filter(|line| keeps(line)).cloned().collect();
            if kept.len() < lines.len() {
                *lines = kept;
            }
            lines.is_empty()
        }
        _ => false,
    };
    if gone {
        group.remove(file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use std::path::Path;

    const FILE: &str = r#"# What we serve.
[[device]]
file = "/srv/disk.img"   # the old one

[group."/vms"]
"io.max" = ["disk rbps=10M", "web rbps=1M"]
"#;

    fn edited(text: &str, edit: impl FnOnce(&mut Document) -> Result<(), Failure>) -> String {
        let mut document = Document::parse(Path::new("iopace.toml"), text).expect("right");
        edit(&mut document).expect("edited");
        document.finish().expect("right")
    }

    fn file(name: &str) -> AddExport {
        let path = Some(format!("/srv/{name}.img"));
        AddExport { name: name.into(), path, ..AddExport::default() }
    }

    fn exports(text: &str) -> Vec<(String, String, String)> {
        let settings = config::parse(Path::new("iopace.toml"), text).expect("right");
        let all = settings.exports.into_iter();
        all.map(|export| (export.name, export.device, export.group)).collect()
    }

    #[test]
    fn a_device_is_added_and_taken_away_again() {
        let text = FILE.replace(", \"web rbps=1M\"", "");
        let added = edited(&text, |document| document.add_export(&file("web")));
        assert!(added.contains("name = \"web\"\nfile = \"/srv/web.img\""), "{added}");
        assert!(added.starts_with(text.split("[group").next().expect("a part")), "{added}");
        assert_eq!(exports(&added), []);
        let with_line = added.replace("rbps=10M\"]", "rbps=10M\", \"web rbps=1M\"]");
        let removed = edited(&with_line, |document| document.remove_export("web", Some("web")));
        assert!(removed.contains("# the old one") && !removed.contains("web"), "{removed}");
        assert!(removed.contains("disk rbps=10M"), "{removed}");
    }

    #[test]
    fn an_export_for_encrypted_clients_stays_one() {
        let text =
            FILE.replace(", \"web rbps=1M\"", "").replacen("[[", "tls-certificates = \".\"\n[[", 1);
        let safe = AddExport { require_tls: true, ..file("web") };
        let added = edited(&text, |document| document.add_export(&safe));
        let settings = config::parse(Path::new("iopace.toml"), &added).expect("right");
        let all = settings.exports.iter().map(|export| (&*export.name, export.needs_tls));
        assert_eq!(all.collect::<Vec<_>>(), [("disk", false), ("web", true)]);
    }

    #[test]
    fn another_name_of_a_device_names_all_exports() {
        let device = Some("disk".to_owned());
        let group = Some("/vms".to_owned());
        let two = AddExport { name: "two".into(), device, group, ..AddExport::default() };
        let text = FILE.replace(", \"web rbps=1M\"", "");
        let added = edited(&text, |document| document.add_export(&two));
        let named = |name: &str, group: &str| (name.into(), "disk".into(), group.into());
        assert_eq!(exports(&added), [named("disk", "/"), named("two", "/vms")]);
        let removed = edited(&added, |document| document.remove_export("disk", None));
        assert_eq!(exports(&removed), [named("two", "/vms")]);
        let mut last = Document::parse(Path::new("iopace.toml"), &removed).expect("right");
        let refused = last.remove_export("two", None).expect_err("it would be exported again");
        assert!(refused.message.contains("nothing is exported"), "{}", refused.message);
        let mut twice = Document::parse(Path::new("iopace.toml"), &added).expect("right");
        let refused = twice.add_export(&two).expect_err("it is there");
        assert!(refused.message.contains("'two' already"), "{}", refused.message);
    }
}
