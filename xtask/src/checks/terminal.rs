//! The output of a command goes through the one module that shows control characters.

use super::{Check, Context};

/// Where standard output and standard error are written: `output` and `log` replace what commands
/// a terminal, `top` draws cells (control characters take no cell), and a daemon talks to the
/// command in front through a pipe, which prints it by `output`.
const WRITERS: [&str; 4] = [
    "crates/iopace/src/output.rs",
    "crates/iopace/src/log.rs",
    "crates/iopace/src/top/screen.rs",
    "crates/iopace/src/mount/detach.rs",
];

/// The check of writers.
pub static CHECK: Check = Check {
    name: "one-writer",
    rule: "commands write to a terminal by `output` and the log only",
    run: writers,
    bad: || {
        let text = "fn f() { let _ = write!(io::stderr(), \"{name}\"); }\n";
        vec![("crates/iopace/src/a.rs", text.into())]
    },
    good: || {
        let text = "fn f() { if io::stderr().is_terminal() { note(name); } }\n";
        let writer = "fn f() { let _ = write!(io::stderr(), \"{name}\"); }\n";
        vec![("crates/iopace/src/a.rs", text.into()), (WRITERS[0], writer.into())]
    },
};

fn writers(context: &mut Context<'_>) {
    let tree = context.tree;
    let ours = |path: &str| path.starts_with("crates/iopace/src/") && !WRITERS.contains(&path);
    for (file, source) in tree.rust().filter(|(file, _)| ours(&file.path) && !file.is_test()) {
        for at in 0..source.tokens.len() {
            let is_stream = source.matches(at, &["stdout", "(", ")"])
                || source.matches(at, &["stderr", "(", ")"]);
            let is_asked = source.matches(at + 3, &[".", "is_terminal"]);
            if is_stream && !is_asked && !source.is_test(at) {
                let remedy = "say it with print, note or note_over of the module `output`";
                context.find(&file.path, source.tokens[at].line, "writes by itself", remedy);
            }
        }
    }
}
