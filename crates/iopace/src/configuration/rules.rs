//! Rules of mounts in a configuration file, and the groups that they name.

use super::Document;
use crate::output::Failure;
use toml_edit::{ArrayOfTables, Item, Table, value};

/// The files of the group of a program that are set for it.
const PROGRAM_FILES: [&str; 2] = ["io.ioprio_class", "io.max"];

impl Document {
    /// Puts a rule for a program before all others of each mount; where it is already, it stays.
    ///
    /// # Errors
    /// Another rule names the program, or the rules are in another form than tables.
    pub fn add_rule(&mut self, program: &str, group: &str) -> Result<(), Failure> {
        let path = self.path.display().to_string();
        let form = |name: &str| {
            Failure::new(format!("{path}: {name} is in another form: write it as [[{name}]]"))
        };
        for mount in self.mounts().ok_or_else(|| form("mount"))?.iter_mut() {
            let rules = mount.entry("rule");
            let rules = rules.or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
            let rules = rules.as_array_of_tables_mut().ok_or_else(|| form("mount.rule"))?;
            if rules.iter().any(|rule| is_rule(rule, program, Some(group))) {
                continue;
            }
            if rules.iter().any(|rule| is_rule(rule, program, None)) {
                return Err(Failure::new(format!(
                    "{path}: another rule is for the program {program}: give the class to its \
                     group, with 'iopace group set GROUP io.ioprio_class IDLE --save'"
                )));
            }
            let mut first = Table::new();
            first.insert("program", value(program));
            first.insert("group", value(group));
            let mut all = ArrayOfTables::new();
            all.push(first);
            rules.iter().for_each(|rule| all.push(rule.clone()));
            *rules = all;
        }
        Ok(())
    }

    /// Takes a rule away from all mounts.
    pub fn remove_rule(&mut self, program: &str, group: &str) {
        for mount in self.mounts().into_iter().flat_map(ArrayOfTables::iter_mut) {
            let Some(rules) = mount.get_mut("rule").and_then(Item::as_array_of_tables_mut) else {
                continue;
            };
            rules.retain(|rule| !is_rule(rule, program, Some(group)));
            if rules.is_empty() {
                mount.remove("rule");
            }
        }
    }

    /// Writes lines to the files of the group of a program, and none to the others of these
    /// files. What somebody else has set for it stays.
    ///
    /// # Errors
    /// The file has its groups in another form than tables.
    pub fn set_group(&mut self, path: &str, lines: &[(&str, String)]) -> Result<(), Failure> {
        let table = self.group_table(path)?;
        for file in PROGRAM_FILES {
            match lines.iter().find(|(of, _)| *of == file) {
                Some((_, text)) => _ = table.insert(file, value(text)),
                None => _ = table.remove(file),
            }
        }
        Ok(())
    }

    /// Takes the group of a program away, unless another rule names it or somebody else has set
    /// something for it.
    pub fn unset_group(&mut self, path: &str) {
        let names_it = |mount: &Table| {
            let rules = mount.get("rule").and_then(Item::as_array_of_tables);
            let group = |rule: &Table| rule.get("group").and_then(Item::as_str) == Some(path);
            rules.is_some_and(|rules| rules.iter().any(group))
        };
        if self.mounts().is_some_and(|mounts| mounts.iter().any(names_it)) {
            return;
        }
        let Ok(table) = self.group_table(path) else { return };
        PROGRAM_FILES.iter().for_each(|file| _ = table.remove(file));
        if table.is_empty() {
            self.remove_group(path);
        }
    }

    fn mounts(&mut self) -> Option<&mut ArrayOfTables> {
        self.text.get_mut("mount").and_then(Item::as_array_of_tables_mut)
    }
}

/// Whether a rule is for a program, and has it pay as a group.
fn is_rule(rule: &Table, program: &str, group: Option<&str>) -> bool {
    let has = |key: &str, text: &str| rule.get(key).and_then(Item::as_str) == Some(text);
    has("program", program) && group.is_none_or(|group| has("group", group))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const FILE: &str = r#"# A mount.
[[mount]]
dir = "/srv"   # ours

# Who pays.
[[mount.rule]]
program = "rsync"
group = "/backup"

[group."/backup"]
"io.weight" = 20
"#;

    fn edited(text: &str, edit: impl FnOnce(&mut Document)) -> String {
        let mut document = Document::parse(Path::new("/etc/x.toml"), text).expect("right");
        edit(&mut document);
        document.finish().expect("right")
    }

    fn installed(text: &str) -> String {
        edited(text, |document| {
            document.add_rule("restic", "/nice-restic").expect("added");
            let lines = [("io.ioprio_class", "default IDLE".to_owned())];
            document.set_group("/nice-restic", &lines).expect("set");
        })
    }

    #[test]
    fn a_rule_goes_before_the_others_and_away_again() {
        let bare = "[[mount]]\ndir = \"/srv\"\n";
        for text in [FILE, bare] {
            let made = installed(text);
            let first = made.find("\"restic\"").expect("there");
            assert!(made.find("\"rsync\"").is_none_or(|other| first < other), "{made}");
            assert!(made.contains("[group.\"/nice-restic\"]"), "{made}");
            assert_eq!(installed(&made), made, "once is enough");
            let removed = edited(&made, |document| {
                document.remove_rule("restic", "/nice-restic");
                document.unset_group("/nice-restic");
            });
            assert_eq!(removed, text);
        }
    }

    #[test]
    fn what_others_have_set_for_its_group_stays() {
        let own = "[[mount]]\ndir = \"/srv\"\n\n[group.\"/nice-restic\"]\n\
                   \"io.ioprio_class\" = \"default IDLE\"\n\"io.weight\" = 50\n";
        let text = edited(own, |document| {
            let lines = [("io.max", "default bps=7".to_owned())];
            document.set_group("/nice-restic", &lines).expect("set");
        });
        assert!(text.contains("io.weight") && text.contains("bps=7"), "{text}");
        assert!(!text.contains("IDLE"), "{text}");
        let text = edited(&text, |document| document.unset_group("/nice-restic"));
        let left = "[[mount]]\ndir = \"/srv\"\n\n[group.\"/nice-restic\"]\n\"io.weight\" = 50\n";
        assert_eq!(text, left);
        // Another rule names it.
        let named = "[[mount]]\ndir = \"/srv\"\n\n[[mount.rule]]\nprogram = \"a\"\n\
                     group = \"/nice-b\"\n\n[group.\"/nice-b\"]\n\"io.max\" = \"default bps=7\"\n";
        assert_eq!(edited(named, |document| document.unset_group("/nice-b")), named);
    }

    #[test]
    fn rules_of_others_stay() {
        let mut document = Document::parse(Path::new("/etc/x.toml"), FILE).expect("right");
        let refused = document.add_rule("rsync", "/nice-rsync").expect_err("there is one");
        assert!(refused.message.contains("io.ioprio_class IDLE"), "{}", refused.message);
        let text = edited(FILE, |document| document.remove_rule("rsync", "/nice-rsync"));
        assert_eq!(text, FILE);
        let inline = "[[mount]]\ndir = \"/srv\"\nrule = [{ program = \"x\", group = \"/\" }]\n";
        let mut document = Document::parse(Path::new("/etc/x.toml"), inline).expect("right");
        let refused = document.add_rule("rsync", "/nice-rsync").expect_err("another form");
        assert!(refused.message.contains("[[mount.rule]]"), "{}", refused.message);
    }
}
