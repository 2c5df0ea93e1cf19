//! Unsafe code says why it is sound, a queue has a bound, a test that sleeps says why.

use super::{Check, Context};

/// Lines above `unsafe` in which its reason is looked for.
const REASON_LINES: usize = 6;

/// The check of unsafe code.
pub static UNSAFE: Check = Check {
    name: "unsafe-reason",
    rule: "`unsafe` has `// SAFETY:` with the reason directly above",
    run: unsafe_code,
    bad: || vec![("a.rs", "fn f() {\n    unsafe { g() }\n}\n".into())],
    good: || {
        let text = "fn f() {\n    // SAFETY: g has no conditions.\n    unsafe { g() }\n}\n\
                    // the word unsafe in a comment\n#![forbid(unsafe_code)]\n\
                    /// # Safety\n/// None.\npub unsafe fn h() {}\n";
        vec![("a.rs", text.into())]
    },
};

/// The check of queues.
pub static BOUNDS: Check = Check {
    name: "bounded-queues",
    rule: "a channel has a bound",
    run: bounds,
    bad: || vec![("a.rs", "fn f() { let (a, b) = mpsc::channel(); }".into())],
    good: || vec![("a.rs", "fn f() { let (a, b) = mpsc::sync_channel(8); }".into())],
};

/// Lines from the reason of a sleep to the sleep.
const SLEEP_LINES: usize = 3;

/// The check of tests that sleep.
pub static SLEEPS: Check = Check {
    name: "tests-wait",
    rule: "a test waits for a condition; one that has to sleep says why in `// SLEEP:`",
    run: sleeps,
    bad: || vec![("crates/a/tests/a.rs", "fn f() {\n    thread::sleep(TIME);\n}\n".into())],
    good: || {
        let text = "fn f() {\n    // SLEEP: the pause between two looks.\n    \
                    thread::sleep(TIME);\n}\n";
        vec![("crates/a/tests/a.rs", text.into()), ("a.rs", "fn f() { sleep(STEP); }".into())]
    },
};

fn sleeps(context: &mut Context<'_>) {
    let tree = context.tree;
    for (file, source) in tree.rust() {
        let is_sleep = |at: &usize| source.matches(*at, &["sleep", "("]);
        let in_test = |at: &usize| file.is_test() || source.is_test(*at);
        for at in (0..source.tokens.len()).filter(is_sleep).filter(in_test) {
            let token = &source.tokens[at];
            // Time of its own: the clock of such a test moves when everybody waits.
            let end = source.closing(at + 1);
            if source.matches(end + 1, &[".", "await"]) && file.text.contains("start_paused") {
                continue;
            }
            let above = &source.lines[token.line.saturating_sub(SLEEP_LINES + 1)..token.line];
            if !above.iter().any(|line| line.comment.contains("SLEEP:")) {
                let remedy = "wait for a condition, or say above it in `// SLEEP:` why it is none";
                context.find(&file.path, token.line, "a test sleeps without a reason", remedy);
            }
        }
    }
}

fn unsafe_code(context: &mut Context<'_>) {
    let tree = context.tree;
    for (file, source) in tree.rust() {
        for token in source.tokens.iter().filter(|token| token.text == "unsafe") {
            let above = &source.lines[token.line.saturating_sub(REASON_LINES + 1)..token.line];
            let is_explained = above
                .iter()
                .any(|line| line.comment.contains("SAFETY:") || line.comment.contains("# Safety"));
            if !is_explained {
                let remedy =
                    "write `// SAFETY:` above it: which conditions there are, why they hold";
                context.find(&file.path, token.line, "`unsafe` without its reason", remedy);
            }
        }
    }
}

fn bounds(context: &mut Context<'_>) {
    let tree = context.tree;
    for (file, source) in tree.rust().filter(|(file, _)| !file.is_test()) {
        for texts in [&["mpsc", ":", ":", "channel"][..], &["unbounded_channel"], &["unbounded"]] {
            for token in source.find(texts) {
                let what = format!("`{}` has no bound", texts.concat());
                let remedy = "take sync_channel with a bound from the crate's limits.rs";
                context.find(&file.path, token.line, what, remedy);
            }
        }
    }
}
