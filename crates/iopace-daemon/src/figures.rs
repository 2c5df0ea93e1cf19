//! Sizes, times and shares as people read them.

use iopace_core::verdict::Reason;

/// A size in three or four digits and a binary unit, as `1.9 GiB`.
pub fn size(bytes: u64) -> String {
    for (shift, name) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >> shift > 0 {
            let tenths = (u128::from(bytes) * 10) >> shift;
            return match (tenths / 10, tenths % 10) {
                (whole, 0) => format!("{whole} {name}"),
                (whole, tenth) => format!("{whole}.{tenth} {name}"),
            };
        }
    }
    format!("{bytes} B")
}

/// A length of time in three digits or so, as `4.2 ms`.
pub fn time(nanos: u64) -> String {
    let (unit, name) = match nanos {
        0 => return "0".into(),
        1..1_000 => return format!("{nanos} ns"),
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let tenths = nanos / (unit / 10);
    match (tenths / 10, tenths % 10) {
        (whole, _) if whole >= 100 => format!("{whole} {name}"),
        (whole, tenth) => format!("{whole}.{tenth} {name}"),
    }
}

/// The word for a reason, as people read it everywhere: in `iopace explain` and `iopace top`, and
/// on the page. Keys of reports and labels of metrics keep its name.
pub fn reason_word(reason: Reason) -> &'static str {
    match reason {
        Reason::Dirty => "dirty rate",
        Reason::Memory => "dirty limit",
        Reason::Budget => "limit",
        other => other.name(),
    }
}

/// Thousandths as `93 %`, and below 10 % as `9.3 %`.
pub fn percent(permille: u32) -> String {
    match permille {
        0..100 => format!("{}.{} %", permille / 10, permille % 10),
        _ => format!("{} %", (permille + 5) / 10),
    }
}

/// The thousandths that a part is of a whole; nothing of nothing is nothing.
pub(crate) fn permille(part: u128, whole: u128) -> u32 {
    let permille = (part * 1_000).checked_div(whole).unwrap_or(0);
    u32::try_from(permille).unwrap_or(u32::MAX)
}

/// A word of a command line, in quotes if a shell needs them.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/_.-+:=,@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_take_them_apart() {
        assert_eq!(shell_word("/vms/web"), "/vms/web");
        assert_eq!(shell_word("disk rbps=1M"), "'disk rbps=1M'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
        assert_eq!(
            (percent(999), percent(93), permille(1, 0)),
            ("100 %".into(), "9.3 %".into(), 0)
        );
    }
}
