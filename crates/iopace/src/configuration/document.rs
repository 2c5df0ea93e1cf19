//! A configuration file that is brought in line with what holds: only what differs is written, and
//! comments and order stay.

use crate::config::{self, ConfigError, Settings};
use crate::output::Failure;
use iopace_core::limits::PAUSE_TARGET_DEFAULT;
use iopace_core::sched::{self, AUTO};
use iopace_core::time::Nanos;
use iopace_daemon::api::{DeviceReport, ExportReport, GroupReport};
use iopace_daemon::config::{Backend, DeviceConfig};
use iopace_daemon::groups::configured;
use iopace_daemon::limits::FILE_WINDOW_DEFAULT;
use iopace_groups::files::FILES;
use iopace_groups::tree::Tree;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};

/// The text of a file, and what it said when it was read.
pub struct Document {
    pub(super) path: PathBuf,
    pub(super) text: DocumentMut,
    pub(super) settings: Settings,
}

impl Document {
    /// Takes a text apart; `path` is its name in messages, and where relative paths start.
    ///
    /// # Errors
    /// The first mistake, with its place.
    pub fn parse(path: &Path, text: &str) -> Result<Document, Failure> {
        let settings = config::parse(path, text).map_err(Failure::new)?;
        let parsed = text.parse::<DocumentMut>();
        let text = parsed.map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        Ok(Document { path: path.to_owned(), text, settings })
    }

    /// The text, which is right.
    ///
    /// # Errors
    /// The text would not be read as it is meant.
    pub fn finish(self) -> Result<String, Failure> {
        let text = self.text.to_string();
        let wrong = |error: ConfigError| Failure::new(format!("it would not be right: {error}"));
        config::parse(&self.path, &text).map_err(wrong)?;
        Ok(text)
    }

    /// Writes the settings of a group: those of one of its files, or of all.
    ///
    /// # Errors
    /// The file has its groups in another form than tables.
    pub fn group(&mut self, report: &GroupReport, only: Option<&str>) -> Result<(), Failure> {
        let said = said(&self.settings, &report.group);
        if said.as_ref().map_or(report.files.is_empty(), |said| *said == report.files) {
            return Ok(());
        }
        let said = said.unwrap_or_default();
        let table = self.group_table(&report.group)?;
        let is_meant = |name: &str| only.is_none_or(|only| only == name);
        for spec in FILES.iter().filter(|spec| spec.writable && is_meant(spec.name)) {
            match (said.get(spec.name), report.files.get(spec.name)) {
                (said, now) if said == now => {}
                (_, Some(now)) => put(table, spec.name, lines(now)),
                (_, None) => _ = table.remove(spec.name),
            }
        }
        Ok(())
    }

    /// Names a group for which nothing need be set.
    ///
    /// # Errors
    /// As of [`Document::group`].
    pub fn name_group(&mut self, path: &str) -> Result<(), Failure> {
        match path {
            "/" => Ok(()),
            path => self.group_table(path).map(|_| ()),
        }
    }

    /// Takes away the table of a group that is gone.
    pub fn remove_group(&mut self, path: &str) {
        if let Some(groups) = self.text.get_mut("group").and_then(Item::as_table_like_mut) {
            groups.remove(path);
        }
    }

    /// Takes away the tables of all groups but these.
    pub fn keep_groups(&mut self, paths: &[&str]) {
        let said = self.settings.groups.iter().map(|group| group.path.clone());
        let gone: Vec<String> = said.filter(|path| !paths.contains(&&**path)).collect();
        for path in gone {
            self.remove_group(&path);
        }
    }

    pub(super) fn group_table(&mut self, path: &str) -> Result<&mut dyn TableLike, Failure> {
        let groups = self.text.entry("group").or_insert_with(|| {
            let mut all = Table::new();
            all.set_implicit(true);
            Item::Table(all)
        });
        let form = "its groups are not tables: write them as [group.\"/vms\"]";
        let form = || Failure::new(format!("{}: {form}", self.path.display()));
        let groups = groups.as_table_like_mut().ok_or_else(form)?;
        groups
            .entry(path)
            .or_insert_with(|| Item::Table(Table::new()))
            .as_table_like_mut()
            .ok_or_else(form)
    }

    /// The scheduler of a device, and its policies of stages pace and window: what these keys of
    /// the file say, or all of it. (A depth of the window that is not named is written only where
    /// it is known what it would be without.)
    ///
    /// # Errors
    /// The file has its devices in another form than tables.
    pub fn device(&mut self, report: &DeviceReport, keys: Option<&[&str]>) -> Result<(), Failure> {
        let devices = self.settings.devices.iter();
        let mounts = self.settings.mounts.iter().map(|mount| &mount.device);
        let all = devices.map(|one| ("device", one)).enumerate();
        let mut all = all.chain(mounts.map(|one| ("mount", one)).enumerate());
        let Some((at, (kind, config))) = all.find(|(_, (_, one))| one.name == report.name) else {
            return Ok(());
        };
        let config = config.clone();
        let table = self.text.get_mut(kind).and_then(Item::as_array_of_tables_mut);
        let table = table.and_then(|all| all.get_mut(at)).ok_or_else(|| {
            let path = self.path.display();
            Failure::new(format!("{path}: a {kind} is no table: write it as [[{kind}]]"))
        })?;
        let is_meant = |key: &str| keys.is_none_or(|keys| keys.contains(&key));
        if is_meant("sched") {
            scheduler(table, &config, report);
        }
        if let Some(pace) = &report.pace {
            if is_meant("pace") && pace.policy != config.pace.name {
                put(table, "pace", pace.policy.as_str());
            }
            let default = Nanos::from_millis(PAUSE_TARGET_DEFAULT);
            let said = config.pause_target.unwrap_or(default).as_nanos();
            let pause = pace.pause_target_ns.filter(|pause| *pause != said);
            if let Some(pause) = pause.filter(|_| is_meant("pause-target")) {
                put(table, "pause-target", time(pause));
            }
        }
        if is_meant("window-policy") && report.window.policy != config.window.name {
            put(table, "window-policy", report.window.policy.as_str());
        }
        let depth = report.window.depth_set;
        if is_meant("window") && is_other_depth(&config, depth, keys.is_some()) {
            put(table, "window", i64::from(depth));
        }
        Ok(())
    }

    /// The groups of the exports.
    ///
    /// # Errors
    /// The file has its exports in another form than tables.
    pub fn exports(&mut self, reports: &[ExportReport]) -> Result<(), Failure> {
        let said = |settings: &Settings, name: &str| {
            let found = settings.exports.iter().find(|export| export.name == name);
            found.map_or("/".to_owned(), |export| export.group.clone())
        };
        let moved: Vec<&ExportReport> = reports
            .iter()
            .filter(|report| said(&self.settings, &report.name) != report.group)
            .collect();
        if moved.is_empty() {
            return Ok(());
        }
        let path = self.path.display().to_string();
        let tables = self.text.entry("export");
        let tables = tables.or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        let tables = tables.as_array_of_tables_mut().ok_or_else(|| {
            Failure::new(format!("{path}: an export is no table: write it as [[export]]"))
        })?;
        if tables.is_empty() {
            // Where one is named, those that are not named are none.
            for report in reports {
                let mut table = Table::new();
                put(&mut table, "name", report.name.as_str());
                put(&mut table, "device", report.device.as_str());
                tables.push(table);
            }
        }
        for report in moved {
            let is_it = |table: &&mut Table| {
                table.get("name").and_then(Item::as_str) == Some(&*report.name)
            };
            if let Some(table) = tables.iter_mut().find(is_it) {
                put(table, "group", report.group.as_str());
            }
        }
        Ok(())
    }
}

/// Whether a depth of the window is other than the file says.
fn is_other_depth(config: &DeviceConfig, depth: u32, is_named: bool) -> bool {
    let own = match config.backend {
        // That of an emulated disk is its own, and may be what holds.
        Backend::Emulated { .. } | Backend::Directory { model: Some(_), .. } => None,
        _ => Some(FILE_WINDOW_DEFAULT),
    };
    match config.window_depth.or(own) {
        Some(said) => said != depth,
        None => is_named,
    }
}

/// The settings of a group in a file, in the daemon's words; none if the file does not name it.
fn said(settings: &Settings, path: &str) -> Option<BTreeMap<String, String>> {
    settings.groups.iter().find(|group| group.path == path)?;
    let mounts = settings.mounts.iter().map(|mount| &mount.device);
    let devices = settings.devices.iter().chain(mounts);
    let devices: Vec<_> =
        devices.map(|device| (device.name.clone(), device.nr_group_requests)).collect();
    let mapped = settings.mounts.iter().flat_map(|mount| mount.rules.limited_by_cgroups());
    let mapped: Vec<&str> = mapped.collect();
    let tree = configured(&settings.groups, &devices, &mapped).ok()?;
    let (blank, group) = (Tree::new(), tree.find(path).ok()?);
    let root = blank.find("/").ok()?;
    let files = FILES.iter().filter(|spec| spec.writable).map(|spec| spec.name);
    let said = files.filter_map(|file| {
        let text = tree.read(group, file).ok()?;
        (blank.read(root, file).ok()? != text).then(|| (file.to_owned(), text))
    });
    Some(said.collect())
}

/// The scheduler, if another one holds than is said, or it has other settings.
fn scheduler(table: &mut Table, config: &DeviceConfig, report: &DeviceReport) {
    let said = config.scheduler.as_ref().filter(|(name, _)| name != AUTO);
    let said = said.map(|(name, set)| (name.clone(), set.iter().cloned().collect()));
    let own = |name: &str, params: &BTreeMap<String, u64>| -> BTreeMap<String, u64> {
        let defaults = sched::find(name).map(|algorithm| algorithm.defaults());
        let defaults: BTreeMap<String, u64> = defaults
            .iter()
            .flat_map(|params| params.iter())
            .map(|(spec, value)| (spec.name.to_owned(), value))
            .collect();
        let is_set = |(name, value): &(&String, &u64)| defaults.get(*name) != Some(value);
        let set = params.iter().filter(is_set);
        set.map(|(name, value)| (name.clone(), *value)).collect()
    };
    let said = said.map(|(name, set): (String, BTreeMap<String, u64>)| {
        let set = own(&name, &set);
        (name, set)
    });
    let now = &report.scheduler;
    let now = now.inserted.then(|| (now.algorithm.clone(), own(&now.algorithm, &now.params)));
    if said == now {
        return;
    }
    let Some((name, set)) = now else {
        table.remove("sched");
        table.remove("set");
        return;
    };
    put(table, "sched", name.as_str());
    if set.is_empty() {
        table.remove("set");
    } else {
        let mut values = InlineTable::new();
        for (name, value) in set {
            values.insert(&name, i64::try_from(value).unwrap_or(i64::MAX).into());
        }
        put(table, "set", values);
    }
}

/// Lines as they are written for a group.
fn lines(text: &str) -> Value {
    let lines: Vec<&str> = text.lines().collect();
    match &*lines {
        [line] => match line.strip_prefix("default ").and_then(|value| value.parse::<i64>().ok()) {
            Some(number) => number.into(),
            None => (*line).into(),
        },
        lines => lines.iter().copied().collect::<Array>().into(),
    }
}

/// A time as it is written in a file.
pub(super) fn time(nanos: u64) -> String {
    match nanos.is_multiple_of(1_000_000) {
        true => format!("{}ms", nanos / 1_000_000),
        false => format!("{}us", nanos / 1_000),
    }
}

/// Writes a value; comments above and behind the former one stay.
fn put(table: &mut dyn TableLike, key: &str, value: impl Into<Value>) {
    let mut value = value.into();
    // (To insert it would take the lines above the key away.)
    let Some(former) = table.get_mut(key) else {
        return drop(table.insert(key, Item::Value(value)));
    };
    if let Some(former) = former.as_value() {
        *value.decor_mut() = former.decor().clone();
    }
    *former = Item::Value(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"# What we serve.
[[device]]
file = "disk.img"   # the old one

[group."/vms/web"]
# They pay for it.
"io.weight" = 200   # twice
"io.max" = "disk rbps=10M"
"#;

    fn group(path: &str, files: &[(&str, &str)]) -> GroupReport {
        GroupReport {
            group: path.into(),
            exports: Vec::new(),
            connections: Vec::new(),
            processes_count: 0,
            made: false,
            files: files.iter().map(|(file, text)| ((*file).into(), (*text).into())).collect(),
            cgroup_files: Default::default(),
            cluster_files: Default::default(),
        }
    }

    fn written(reports: &[GroupReport]) -> String {
        let mut document = Document::parse(Path::new("iopace.toml"), FILE).expect("right");
        for report in reports {
            document.group(report, None).expect("written");
        }
        document.finish().expect("right")
    }

    #[test]
    fn what_is_said_already_is_not_touched() {
        let said = said(&config::parse(Path::new("x"), FILE).expect("right"), "/vms/web");
        let said = said.expect("it is named");
        let same: Vec<(&str, &str)> = said.iter().map(|(file, text)| (&**file, &**text)).collect();
        assert_eq!(written(&[group("/vms/web", &same), group("/", &[])]), FILE);
    }

    #[test]
    fn a_changed_line_keeps_the_comments() {
        let now = group("/vms/web", &[("io.weight", "default 300\n")]);
        let text = written(&[now]);
        assert!(text.contains("# They pay for it.\n\"io.weight\" = 300   # twice"), "{text}");
        assert!(text.starts_with("# What we serve.") && text.contains("# the old one"), "{text}");
        assert!(!text.contains("io.max"), "{text}");
    }

    #[test]
    fn only_the_file_that_was_written_is_saved() {
        let mut document = Document::parse(Path::new("iopace.toml"), FILE).expect("right");
        let now = group("/vms/web", &[("io.weight", "default 300\n")]);
        document.group(&now, Some("io.weight")).expect("written");
        let text = document.finish().expect("right");
        assert!(text.contains("= 300") && text.contains("io.max"), "{text}");
    }

    #[test]
    fn a_new_group_has_a_table_and_a_removed_one_none() {
        let lines = "default rbps=5242880\ndisk rbps=1048576\n";
        let new = group("/new", &[("io.max", lines)]);
        let text = written(&[new]);
        assert!(text.contains("[group.\"/new\"]"), "{text}");
        let settings = config::parse(Path::new("x"), &text).expect("right");
        let said = said(&settings, "/new").expect("it is named");
        assert_eq!(said["io.max"], lines);
        let mut document = Document::parse(Path::new("iopace.toml"), &text).expect("right");
        document.keep_groups(&["/", "/new"]);
        let text = document.finish().expect("right");
        assert!(!text.contains("/vms/web") && text.contains("/new"), "{text}");
    }

    #[test]
    fn a_moved_export_names_all_exports() {
        let mut document = Document::parse(Path::new("iopace.toml"), FILE).expect("right");
        let export = |group: &str| ExportReport {
            name: "disk".into(),
            device: "disk".into(),
            read_only: false,
            group: group.into(),
        };
        document.exports(&[export("/")]).expect("nothing to do");
        document.exports(&[export("/vms/web")]).expect("written");
        let settings = config::parse(Path::new("x"), &document.finish().expect("right"));
        let exports = settings.expect("right").exports;
        assert_eq!((exports.len(), &*exports[0].group), (1, "/vms/web"));
    }
}
