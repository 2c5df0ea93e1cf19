//! The services of systemd that work in a directory: those whose units name it.

use super::root::{SetupRoot, Standing};
use super::systemd::escaped;
use std::path::{Path, PathBuf};

/// Where units are, the ones that win first.
pub(super) const FOLDERS: [&str; 4] = [
    "/etc/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// So many services get a rule and an order: a directory with more is that of a whole system.
const SERVICES_MAX: usize = 32;

/// Units that are looked at in each folder.
const UNITS_MAX: usize = 4096;

/// A service, and why it is believed to work in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WorkingService {
    /// Its unit, as `postgresql.service`.
    pub(super) name: String,
    /// As a part of a sentence.
    pub(super) reason: String,
}

impl WorkingService {
    /// The group that pays for it.
    pub(super) fn group(&self) -> String {
        let name = self.name.strip_suffix(".service").unwrap_or(&self.name);
        let is_fit = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let fit = name.trim_end_matches('@').chars().map(|c| if is_fit(c) { c } else { '_' });
        format!("/{}", fit.take(64).collect::<String>())
    }

    /// What a rule for its cgroup fits.
    pub(super) fn cgroup(&self) -> String {
        // All instances of a template.
        self.name.replace("@.service", "@*.service")
    }
}

/// Each service once, with the first reason.
pub(super) fn joined(all: impl IntoIterator<Item = WorkingService>) -> Vec<WorkingService> {
    let mut each: Vec<WorkingService> = Vec::new();
    for one in all {
        if is_unit_name(&one.name) && each.iter().all(|known| known.name != one.name) {
            each.push(one);
        }
    }
    // A template stands for its instances.
    let names: Vec<String> = each.iter().map(|one| one.name.clone()).collect();
    each.retain(|one| names.iter().all(|of| *of == one.name || !is_of(&one.name, of)));
    each.truncate(SERVICES_MAX);
    each
}

/// Whether a service is that one, or an instance of that template.
pub(super) fn is_of(service: &str, of: &str) -> bool {
    let template = of.strip_suffix("@.service");
    service == of || template.is_some_and(|name| service.split('@').next() == Some(name))
}

/// Characters that systemd has in names of units: no path, and no line of a unit.
fn is_unit_name(name: &str) -> bool {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    name.ends_with(".service")
        && !name.starts_with("iopace")
        && name.len() <= 255
        && name.chars().all(is_fit)
}

/// The services whose units name the directory, or something below it.
pub(super) fn naming(root: &SetupRoot, directory: &Path) -> Vec<WorkingService> {
    let mut found: Vec<WorkingService> = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for folder in FOLDERS {
        for name in root.names(Path::new(folder)).into_iter().take(UNITS_MAX) {
            let Ok(name) = name.into_string() else { continue };
            if !is_unit_name(&name) || seen.contains(&name) {
                continue;
            }
            // The first folder that has a unit wins, also where it masks it with a link.
            seen.push(name.clone());
            let Ok(Standing::Text(Some(text))) = root.standing(&Path::new(folder).join(&name))
            else {
                continue;
            };
            if let Some(key) = key_with(&text, directory) {
                found.push(WorkingService { name, reason: format!("its unit has {key}") });
            }
        }
    }
    found
}

/// The key of a unit that names the directory or something below it; none of a service that starts
/// before local file systems are there: it cannot wait for this one.
fn key_with(text: &str, directory: &Path) -> Option<String> {
    let lines = || text.lines().filter_map(|line| line.trim().split_once('='));
    let is_early = |(key, value): (&str, &str)| {
        key.trim() == "DefaultDependencies"
            && ["no", "false", "off", "0"].contains(&value.trim().to_lowercase().as_str())
    };
    if lines().any(is_early) {
        return None;
    }
    lines().find_map(|(key, value)| {
        let key = key.trim();
        let paths: Vec<PathBuf> = match key {
            "RequiresMountsFor"
            | "ReadWritePaths"
            | "ReadWriteDirectories"
            | "WorkingDirectory"
            | "Environment"
            | "ExecStart" => value.split(['=', ' ', '\t', '"', '\'', ':']).map(path_in).collect(),
            "StateDirectory" => {
                value.split_whitespace().map(|name| Path::new("/var/lib").join(name)).collect()
            }
            _ => return None,
        };
        paths.iter().any(|path| path.starts_with(directory)).then(|| key.to_owned())
    })
}

/// The path in a word, without the signs that systemd knows before one.
fn path_in(word: &str) -> PathBuf {
    PathBuf::from(word.trim_start_matches(['-', '+', '!', '@', '~']))
}

/// The unit of iopace for each mount, as it is installed in the root, and the folder that it is in.
pub(super) fn template(root: &SetupRoot) -> Option<(PathBuf, String)> {
    FOLDERS.iter().find_map(|folder| {
        let path = Path::new(folder).join("iopace-mount@.service");
        match root.standing(&path) {
            Ok(Standing::Text(Some(text))) => Some((path, text)),
            _ => None,
        }
    })
}

/// The file that orders a service after the mount of a directory.
pub(super) fn order_of(service: &str, directory: &Path) -> PathBuf {
    let folder = Path::new(FOLDERS[0]).join(format!("{service}.d"));
    folder.join(format!("iopace-{}.conf", escaped(directory)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_that_names_the_directory_works_in_it() {
        let key = |text: &str| key_with(text, Path::new("/srv/db"));
        for (line, expected) in [
            ("RequiresMountsFor=/srv/db", Some("RequiresMountsFor")),
            ("ReadWritePaths=-/srv/db/x /var", Some("ReadWritePaths")),
            ("Environment=\"PGDATA=/srv/db/15\"", Some("Environment")),
            ("ExecStart=/usr/bin/db --data=/srv/db", Some("ExecStart")),
            ("ExecStart=/usr/bin/db /srv/db2", None),
            ("# RequiresMountsFor=/srv/db", None),
            ("Description=/srv/db", None),
            ("RequiresMountsFor=/srv", None),
            ("WorkingDirectory=/srv/db\nDefaultDependencies=no", None),
        ] {
            assert_eq!(key(line).as_deref(), expected, "{line}");
        }
        let state = key_with("StateDirectory=a pg", Path::new("/var/lib/pg"));
        assert_eq!(state.as_deref(), Some("StateDirectory"));
    }

    #[test]
    fn a_service_has_a_group_and_a_rule_of_its_own() {
        let service = |name: &str| WorkingService { name: name.into(), reason: String::new() };
        let template = service("postgresql@.service");
        assert_eq!(
            (template.group(), template.cgroup()),
            ("/postgresql".into(), "postgresql@*.service".into())
        );
        assert_eq!(service("pg@15-main.service").group(), "/pg_15-main");
        let names = ["a.service", "a.service", "../x.service", "iopace.service", "a\nb.service"];
        assert_eq!(joined(names.map(service)), [service("a.service")]);
        let names = ["pg@15.service", "pgx@1.service", "pg@.service"];
        let both = ["pgx@1.service", "pg@.service"].map(service);
        assert_eq!(joined(names.map(service)), both);
        assert!(is_of("pg@15.service", "pg@.service") && !is_of("pg.service", "db.service"));
    }
}
