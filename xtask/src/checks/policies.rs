//! What a policy file has: its theory on top, a test per property, a line in the registry, a page.

use super::{Check, Context, Samples};
use crate::source::Source;
use crate::tree::{File, Tree};

/// The stages, and the trait that a policy of each implements.
const STAGES: [(&str, &str); 4] =
    [("pace", "Pace"), ("admit", "Admission"), ("sched", "Scheduler"), ("window", "Window")];

/// Where the stages are.
const CORE: &str = "crates/iopace-core/src";

/// Headings that each policy file has.
const HEADINGS_NEEDED: [&str; 4] =
    ["# Model", "# Properties", "# When it does not know", "# Limits"];

/// The files that newcomers copy.
const SMALLEST_FILES: [&str; 2] = ["fifo", "none"];

/// Their lines of code, without tests, comments, blank lines and imports.
const SMALLEST_LINES: usize = 40;

/// The check of headings.
pub static HEADINGS: Check = Check {
    name: "policy-headings",
    rule: "a policy file opens with `# Model`, `# Properties`, `# When it does not know` and \
           `# Limits`",
    run: headings,
    bad: || policy("//! Does it.\n"),
    good: || policy(GOOD),
};

/// The check of properties.
pub static PROPERTIES: Check = Check {
    name: "policy-properties",
    rule: "each numbered property of a policy has a test `p<number>_...`",
    run: properties,
    bad: || {
        policy(
            "//! # Properties\n//! 1. One.\n//! 2. Two.\n\
             #[cfg(test)] mod tests { fn p1_one() {} }\n",
        )
    },
    good: || policy(GOOD),
};

/// The check of the smallest policies.
pub static SMALLEST: Check = Check {
    name: "policy-smallest",
    rule: "fifo.rs and none.rs have at most 40 lines of code: they are copied by newcomers",
    run: smallest,
    bad: || {
        vec![(
            FIFO,
            format!("impl Scheduler for Fifo {{}}\n{}", "fn f() {}\n".repeat(SMALLEST_LINES)),
        )]
    },
    good: || {
        vec![(FIFO, format!("impl Scheduler for Fifo {{}}\n{}", "// f\nuse f;\n\n".repeat(99)))]
    },
};

/// The check of the registry.
pub static REGISTERED: Check = Check {
    name: "policy-registered",
    rule: "each scheduler has a line in registry.rs and a page docs/policies/<name>.md",
    run: registered,
    bad: || policy(GOOD),
    good: || {
        let mut samples = policy(GOOD);
        let registry = "static REGISTRY: &[&Algorithm] = &[&fifo::ALGORITHM];";
        samples.push(("crates/iopace-core/src/sched/registry.rs", registry.into()));
        samples.push(("docs/policies/first.md", "# first\n".into()));
        samples
    },
};

const FIFO: &str = "crates/iopace-core/src/sched/fifo.rs";

const GOOD: &str = "\
    //! # Model\n//! # Properties\n//! 1. One.\n//! # When it does not know\n//! # Limits\n\
    pub static ALGORITHM: Algorithm = Algorithm {\n    name: \"first\",\n};\n\
    impl<T> Scheduler for Fifo<T> {}\n#[cfg(test)] mod tests { fn p1_one() {} }\n";

fn policy(text: &str) -> Samples {
    vec![(FIFO, format!("{text}impl Scheduler for Fifo {{}}\n"))]
}

/// The policy files: those in a stage's folder that implement its trait.
pub fn policies(tree: &Tree) -> impl Iterator<Item = (&File, &Source)> {
    tree.rust().filter(|(file, source)| {
        let stage = STAGES.iter().find(|(stage, _)| file.folder() == format!("{CORE}/{stage}"));
        stage.is_some_and(|(_, name)| !file.is_test() && implements(source, name))
    })
}

/// Whether the file has an `impl ... Name for` outside its tests.
fn implements(source: &Source, name: &str) -> bool {
    let mut is_impl = false;
    (0..source.tokens.len()).filter(|&at| !source.is_test(at)).any(|at| {
        match source.text(at) {
            "impl" => is_impl = true,
            "{" | ";" => is_impl = false,
            _ => {}
        }
        is_impl && source.matches(at, &[name, "for"])
    })
}

/// The words of the file's `//!` lines.
fn theory(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let lines = file.text.lines().enumerate();
    lines.filter_map(|(i, line)| Some((i + 1, line.strip_prefix("//!")?.trim())))
}

fn headings(context: &mut Context<'_>) {
    let tree = context.tree;
    for (file, _) in policies(tree) {
        for heading in HEADINGS_NEEDED {
            if !theory(file).any(|(_, line)| line == heading) {
                let what = format!("a policy without `//! {heading}`");
                context.find(
                    &file.path,
                    0,
                    what,
                    "write it; STYLE of a policy is in CONTRIBUTING.md",
                );
            }
        }
    }
}

/// The numbered properties, with their lines.
fn numbered(file: &File) -> Vec<(usize, usize)> {
    let after = theory(file).skip_while(|(_, line)| *line != "# Properties").skip(1);
    let section = after.take_while(|(_, line)| !line.starts_with("# "));
    section.filter_map(|(at, line)| Some((at, line.split_once(". ")?.0.parse().ok()?))).collect()
}

fn properties(context: &mut Context<'_>) {
    let tree = context.tree;
    for (file, source) in policies(tree) {
        let beside = format!("{}/{}/", file.folder(), file.stem());
        let sources = tree.rust().filter(|(other, _)| other.path.starts_with(&beside));
        let sources: Vec<&Source> = sources.map(|(_, source)| source).chain([source]).collect();
        let numbered = numbered(file);
        if numbered.is_empty() {
            context.find(
                &file.path,
                0,
                "no numbered property",
                "write `//! 1. ...` under `# Properties`",
            );
        }
        for (line, number) in numbered {
            let start = format!("p{number}_");
            let is_test =
                |source: &&Source| source.functions().iter().any(|f| f.name.starts_with(&start));
            if !sources.iter().any(is_test) {
                let what = format!("property {number} has no test");
                context.find(&file.path, line, what, format!("write a test `fn {start}...`"));
            }
        }
    }
}

fn smallest(context: &mut Context<'_>) {
    let tree = context.tree;
    for (file, source) in policies(tree).filter(|(file, _)| SMALLEST_FILES.contains(&file.stem())) {
        let is_code = |code: &str| !code.trim().is_empty() && !code.starts_with("use ");
        let lines = source.lines.iter().filter(|line| !line.is_test && is_code(&line.code)).count();
        if lines > SMALLEST_LINES {
            let what = format!("{lines} lines of code, of {SMALLEST_LINES}");
            context.find(
                &file.path,
                0,
                what,
                "newcomers copy this file: take out what it can do without",
            );
        }
    }
}

fn registered(context: &mut Context<'_>) {
    let tree = context.tree;
    let sched = format!("{CORE}/sched");
    let registry = tree.file(&format!("{sched}/registry.rs")).map_or("", |file| file.text.as_str());
    for (file, _) in policies(tree).filter(|(file, _)| file.folder() == sched) {
        let module = file.stem();
        if !registry.contains(&format!("{module}::ALGORITHM")) {
            let what = format!("the scheduler `{module}` is not in the registry");
            context.find(&file.path, 0, what, format!("add `&{module}::ALGORITHM` in registry.rs"));
        }
        let page = format!("docs/policies/{}.md", word(file).unwrap_or(module));
        if !tree.paths.contains(&page) {
            let what = format!("no page {page}");
            context.find(&file.path, 0, what, "write it: what it is, when to use it, when not");
        }
    }
}

/// The word for a scheduler: the `name` in its `ALGORITHM`.
fn word(file: &File) -> Option<&str> {
    let (_, algorithm) = file.text.split_once("ALGORITHM: Algorithm =")?;
    algorithm.split_once("name: \"")?.1.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_known_by_its_trait() {
        let tree = Tree::of(&[
            (FIFO, "impl<T: X> Scheduler for Fifo<T> {}".into()),
            (
                "crates/iopace-core/src/sched/guard.rs",
                "fn f(s: impl Scheduler) { for x in y {} }".into(),
            ),
            ("crates/iopace-core/src/window/a.rs", "impl Scheduler for A {}".into()),
            (
                "crates/iopace-core/src/window/b.rs",
                "#[cfg(test)] mod t { impl Window for B {} }".into(),
            ),
        ]);
        assert_eq!(policies(&tree).map(|(file, _)| file.stem()).collect::<Vec<_>>(), ["fifo"]);
    }

    #[test]
    fn tests_beside_the_file_count() {
        let mut samples = policy("//! # Properties\n//! 1. One.\n");
        samples.push(("crates/iopace-core/src/sched/fifo/tests.rs", "fn p1_one() {}".into()));
        assert!(crate::checks::findings(&PROPERTIES, &samples).is_empty());
    }

    #[test]
    fn only_the_list_under_properties_is_numbered() {
        let file = File::new(
            "a.rs",
            "//! # Properties\n//! 1. One,\n//!    two.\n//! # Limits\n//! 2. No.\n",
        );
        assert_eq!(numbered(&file), [(2, 1)]);
    }
}
