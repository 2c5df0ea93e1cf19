//! The modules of all crates, and what they import of each other.

use crate::source::Source;
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// A module by the names on the way to it, the first that of its crate.
pub type Path = Vec<String>;

/// What each module imports.
#[derive(Debug, Default)]
pub struct Modules {
    /// Each with its file.
    pub files: BTreeMap<Path, String>,
    /// The paths that each takes something from.
    pub imports: BTreeMap<Path, BTreeSet<Path>>,
    /// Names that a module shows on behalf of others.
    shown: BTreeMap<(Path, String), Path>,
}

/// The module that a file is, if it is one of a crate and no test.
fn module(path: &str) -> Option<Path> {
    let (name, inside) = path.strip_prefix("crates/")?.split_once("/src/")?;
    let mut module = vec![name.to_owned()];
    module.extend(inside.strip_suffix(".rs")?.split('/').map(str::to_owned));
    if ["mod", "lib", "main"].contains(&module[module.len() - 1].as_str()) {
        module.pop();
    }
    Some(module)
}

impl Modules {
    /// Reads those of all crates, without their tests.
    pub fn read(tree: &Tree) -> Modules {
        let mut modules = Modules::default();
        let all: Vec<(Path, &Source)> = tree
            .rust()
            .filter(|(file, _)| !file.is_test())
            .filter_map(|(file, source)| {
                let module = module(&file.path)?;
                modules.files.insert(module.clone(), file.path.clone());
                Some((module, source))
            })
            .collect();
        for (module, source) in all {
            modules.add(&module, source);
        }
        modules
    }

    fn add(&mut self, module: &Path, source: &Source) {
        let mut at = 0;
        while at < source.tokens.len() {
            let text = source.text(at);
            let is_head = ["crate", "super", "self"].contains(&text)
                && source.matches(at + 1, &[":", ":"])
                && (at == 0 || source.text(at - 1) != ":");
            if source.is_test(at) || !(is_head || text == "use") {
                at += 1;
                continue;
            }
            let is_use = text == "use";
            let is_shown = is_use && at > 0 && ["pub", ")"].contains(&source.text(at - 1));
            let mut paths = Vec::new();
            at = tree_at(source, at + usize::from(is_use), &[], &mut paths);
            for path in paths {
                let Some(full) = self.full(module, &path) else { continue };
                if is_shown && let Some(name) = full.last() {
                    self.shown.insert((module.clone(), name.clone()), full.clone());
                }
                self.imports.entry(module.clone()).or_default().insert(full);
            }
        }
    }

    /// A path as it is written in a module, from the crate on; `None` if it leads out of it.
    fn full(&self, module: &Path, path: &[String]) -> Option<Path> {
        let mut base = module.clone();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => base.truncate(1),
            "self" => {}
            "super" => {
                while rest.first().is_some_and(|name| name == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
                base.extend_from_slice(rest);
                return Some(base);
            }
            name => {
                base.push(name.to_owned());
                let is_part = self.files.contains_key(&base);
                base.extend_from_slice(&rest[1..]);
                return is_part.then_some(base);
            }
        }
        base.extend_from_slice(&rest[1..]);
        Some(base)
    }

    /// The module that a path leads to.
    pub fn owner(&self, path: &[String]) -> Path {
        let mut path = path.to_vec();
        for _ in 0..6 {
            let mut len = path.len();
            while len > 0 && !self.files.contains_key(&path[..len]) {
                len -= 1;
            }
            let module = path[..len].to_vec();
            let Some(name) = path.get(len) else { return module };
            match self.shown.get(&(module.clone(), name.clone())) {
                Some(full) if *full != path => {
                    let rest = path.split_off(len + 1);
                    path = [full.clone(), rest].concat();
                }
                _ => return module,
            }
        }
        path
    }
}

/// Reads a path, or a tree of them in braces, from the token at `at` on. Where it ends.
fn tree_at(source: &Source, at: usize, head: &[String], paths: &mut Vec<Path>) -> usize {
    let (mut at, mut path) = (at, head.to_vec());
    loop {
        match source.text(at) {
            "{" => {
                at += 1;
                while at < source.tokens.len() && source.text(at) != "}" {
                    let before = at;
                    at = tree_at(source, at, &path, paths);
                    at += usize::from(source.text(at) == "," || at == before);
                }
                return at + 1;
            }
            "*" => {
                paths.push(path);
                return at + 1;
            }
            "self" if !path.is_empty() => {}
            name => path.push(name.to_owned()),
        }
        at += 1;
        if !source.matches(at, &[":", ":"]) {
            break;
        }
        at += 2;
    }
    paths.push(path);
    if source.text(at) == "as" { at + 2 } else { at }
}
