//! What is unsafe says why it is sound; what queues has a bound.

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
