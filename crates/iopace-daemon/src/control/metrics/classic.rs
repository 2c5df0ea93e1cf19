//! The text format that was before OpenMetrics, from the latter: the type of a counter is that of
//! its samples' name, which ends in `_total`, and there are no units and no end.

/// The same in the classic format. A text may come in pieces of whole families or samples.
pub(super) fn from_open(open: &str, text: &mut String) {
    let mut lines = open.lines().peekable();
    let mut suffix = "";
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            let of_counter =
                |next: &&str| next.starts_with("# TYPE ") && next.ends_with(" counter");
            suffix = if lines.peek().is_some_and(of_counter) { "_total" } else { "" };
            text.extend(["# HELP ", name, suffix, " ", help, "\n"]);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
            text.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with("# ") {
            text.extend([line, "\n"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_of_the_names_of_samples() {
        let open = "# HELP a_seconds Some time.\n# TYPE a_seconds counter\n\
                    # UNIT a_seconds seconds\na_seconds_total{b=\"# HELP\"} 1.5\n\
                    # HELP c How many.\n# TYPE c gauge\nc 2\n# EOF\n";
        let classic = "# HELP a_seconds_total Some time.\n# TYPE a_seconds_total counter\n\
                       a_seconds_total{b=\"# HELP\"} 1.5\n\
                       # HELP c How many.\n# TYPE c gauge\nc 2\n";
        let mut text = String::new();
        from_open(open, &mut text);
        assert_eq!(text, classic);
    }
}
