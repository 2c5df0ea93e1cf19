//! Like tasks, by their names.

/// What the names of several like tasks have in common: `dd` of `dd-01`, and of the process
/// `dd 17` of a trace. One of them speaks for all.
pub(super) fn family(task: &str) -> &str {
    let stem = task.trim_end_matches(|c: char| c.is_ascii_digit());
    match stem.len() < task.len() {
        true => stem.strip_suffix(['-', ' ']).unwrap_or(task),
        false => task,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_tasks_are_one_family() {
        assert_eq!((family("dd-01"), family("dd"), family("r2")), ("dd", "dd", "r2"));
        assert_eq!((family("fio 4711"), family("log-")), ("fio", "log-"));
    }
}
