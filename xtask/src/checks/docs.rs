//! The documents say what is there.

use super::{Check, Context};
use crate::tree::{File, Tree};

/// The map of the project.
const MAP_FILE: &str = "ARCHITECTURE.md";

/// The check of the map.
pub static MAP: Check = Check {
    name: "map",
    rule: "ARCHITECTURE.md names each crate and each folder of the core",
    run: map,
    bad: || vec![(MAP_FILE, "# Map\n".into()), ("crates/new/Cargo.toml", String::new())],
    good: || {
        vec![
            (MAP_FILE, "`new`, `iopace-core`, `sched/`\n".into()),
            ("crates/new/Cargo.toml", String::new()),
            ("crates/iopace-core/src/sched/rr/tests.rs", String::new()),
        ]
    },
};

/// The check of links.
pub static LINKS: Check = Check {
    name: "links",
    rule: "a relative link in a document leads to a file",
    run: links,
    bad: || vec![("docs/a.md", "see [b](b.md)\n".into())],
    good: || {
        let text = "see [b](b.md#part), [web](https://example.org/), [up](../README.md)\n\
                    see [here](#part)\n\
                    `[not](a-link.md)`\n```\n[nor](this.md)\n```\n";
        vec![("docs/a.md", text.into()), ("docs/b.md", String::new()), ("README.md", String::new())]
    },
};

/// The check of scenarios.
pub static SCENARIOS: Check = Check {
    name: "scenario-why",
    rule: "a scenario says why it exists",
    run: scenarios,
    bad: || vec![("scenarios/a.toml", "seed = 1\n[disk]\nwhy = \"x\"\n".into())],
    good: || vec![("scenarios/a.toml", "why = \"To see that it works.\"\n".into())],
};

fn map(context: &mut Context<'_>) {
    let tree = context.tree;
    let text = tree.file(MAP_FILE).map_or("", |file| file.text.as_str());
    let core = "crates/iopace-core/src/";
    for path in &tree.paths {
        let is_folder = tree.file(path).is_none() && !path.ends_with(".gitkeep");
        let place =
            match path.strip_prefix("crates/").and_then(|path| path.strip_suffix("/Cargo.toml")) {
                Some(name) => format!("`{name}`"),
                None => match path.strip_prefix(core) {
                    Some(folder) if is_folder && !folder.contains('/') => format!("{folder}/"),
                    _ => continue,
                },
            };
        if !text.contains(&place) {
            let what = format!("{place} is not on the map");
            context.find(
                MAP_FILE,
                0,
                what,
                "say in a sentence what it is and what it must not know",
            );
        }
    }
}

fn links(context: &mut Context<'_>) {
    let tree = context.tree;
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        let mut is_code = false;
        for (i, line) in file.text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                is_code = !is_code;
            }
            for target in targets(line).into_iter().filter(|_| !is_code) {
                if !leads_somewhere(tree, file, target) {
                    let what = format!("the link to `{target}` leads nowhere");
                    context.find(&file.path, i + 1, what, "correct the link, or add the file");
                }
            }
        }
    }
}

/// The targets of the links in a line, code aside.
fn targets(line: &str) -> Vec<&str> {
    let parts = line.split('`').enumerate().filter(|(i, _)| i % 2 == 0);
    let links = parts.flat_map(|(_, part)| part.split("](").skip(1));
    links.filter_map(|rest| rest.split([')', ' ']).next()).collect()
}

fn leads_somewhere(tree: &Tree, file: &File, target: &str) -> bool {
    let path = target.split('#').next().unwrap_or_default();
    if path.is_empty() || target.contains(':') {
        return true;
    }
    let mut parts: Vec<&str> = file.folder().split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    tree.paths.contains(&parts.join("/"))
}

fn scenarios(context: &mut Context<'_>) {
    let tree = context.tree;
    for file in tree.files.iter().filter(|file| file.path.starts_with("scenarios/")) {
        let mut head = file.text.lines().take_while(|line| !line.starts_with('['));
        let has_why = head.any(|line| {
            line.strip_prefix("why")
                .is_some_and(|rest| rest.trim_start().trim_start_matches('=').trim().len() > 2)
        });
        if file.path.ends_with(".toml") && !has_why {
            context.find(
                &file.path,
                0,
                "no `why`",
                "say on top in one sentence what it shows: why = \"...\"",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_told_from_code() {
        assert_eq!(targets("[a](b) `[c](d)` [e](f \"title\")"), ["b", "f"]);
    }

    #[test]
    fn an_empty_why_is_none() {
        let samples = vec![("scenarios/a.toml", "why = \"\"\n".to_string())];
        assert_eq!(crate::checks::findings(&SCENARIOS, &samples).len(), 1);
    }
}
