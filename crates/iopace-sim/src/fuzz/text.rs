//! A draft as the text of a scenario file.

use super::draft::{Draft, TaskDraft};
use std::fmt::Write as _;

/// The file. Its `why` is what does not hold in it.
pub fn toml(draft: &Draft, why: &str) -> String {
    // A basic string of TOML: what could end it goes.
    let why: String = why.chars().filter(|c| !"\"\\".contains(*c) && !c.is_control()).collect();
    let why = if why.trim().is_empty() { "A random scenario." } else { &why };
    let mut text = format!(
        "why = \"{why}\"\nseed = {}\nduration = \"{}ms\"\n\n[disk]\npreset = \"{}\"\n",
        draft.seed, draft.duration_ms, draft.disk
    );
    for (key, value) in [("depth", draft.depth), ("nr_requests", draft.nr_requests)] {
        if let Some(value) = value {
            let _ = writeln!(text, "{key} = {value}");
        }
    }
    for (key, value, usual) in [("window", draft.window, "fixed"), ("pace", draft.pace, "none")] {
        if value != usual {
            let _ = writeln!(text, "{key} = \"{value}\"");
        }
    }
    if draft.faults != [0; 3] {
        let [error, stall, lost] = draft.faults;
        let mut parts = vec![format!("error_permille = {error}")];
        if stall > 0 {
            parts.push(format!("stall_permille = {stall}, stall = \"{}ms\"", draft.stall_ms));
        }
        if lost > 0 {
            parts.push(format!("lost_permille = {lost}"));
        }
        let _ = writeln!(text, "faults = {{ {} }}", parts.join(", "));
    }
    if let Some(limit) = draft.dirty_mib {
        let background = limit / 2;
        let _ = write!(
            text,
            "\n[memory]\nsize = \"128MiB\"\ndirty_background = \"{background}MiB\"\n\
             dirty_limit = \"{limit}MiB\"\n"
        );
    }
    if let Some(name) = draft.scheduler {
        let _ = write!(text, "\n[scheduler]\nname = \"{name}\"\n");
    }
    for (place, group) in draft.groups.iter().enumerate() {
        let _ = write!(text, "\n[group.\"{}\"]\n", draft.path(place));
        for (file, line) in &group.lines {
            let _ = writeln!(text, "\"{file}\" = \"{line}\"");
        }
    }
    draft.tasks.iter().for_each(|one| task(&mut text, draft, one));
    steps(&mut text, draft);
    text
}

/// A scheduler is put in where there is none and exchanged where there is one; there is nothing to
/// take out where there is none.
fn steps(text: &mut String, draft: &Draft) {
    let mut is_in = draft.scheduler.is_some();
    for (at, scheduler) in &draft.steps {
        let change = match scheduler {
            Some(name) if is_in => format!("configure = \"{name}\""),
            Some(name) => format!("insert = \"{name}\""),
            None if is_in => "destroy = true".into(),
            None => continue,
        };
        is_in = scheduler.is_some();
        let _ = write!(text, "\n[[step]]\nat = \"{at}ms\"\n{change}\n");
    }
}

fn task(text: &mut String, draft: &Draft, task: &TaskDraft) {
    let TaskDraft { name, kind, place_gib, .. } = task;
    let _ = write!(
        text,
        "\n[[task]]\nname = \"{name}\"\nkind = \"{kind}\"\noffset = \"{place_gib}GiB\"\n\
         size = \"1GiB\"\n"
    );
    if let Some(group) = task.group {
        let _ = writeln!(text, "group = \"{}\"", draft.path(group));
    }
    if task.start_ms > 0 {
        let _ = writeln!(text, "start = \"{}ms\"", task.start_ms);
    }
    if let Some(stop) = task.stop_ms {
        let _ = writeln!(text, "stop = \"{stop}ms\"");
    }
    if task.wave > 0 {
        let _ = writeln!(text, "wave = {}", task.wave);
    }
    if !task.is_plain() {
        return;
    }
    let _ = writeln!(text, "block = \"{}KiB\"", task.block_kib);
    for (key, value, usual) in [
        ("depth", task.depth, 1),
        ("write_percent", task.write_percent, 0),
        ("flush_every", task.flush_every, 0),
    ] {
        if value != usual {
            let _ = writeln!(text, "{key} = {value}");
        }
    }
    if task.think_us > 0 {
        let _ = writeln!(text, "think = \"{}us\"", task.think_us);
    }
    if let Some(total) = task.total_mib {
        let _ = writeln!(text, "total = \"{total}MiB\"");
    }
    let flags = [("fua", task.fua), ("buffered", task.buffered), ("blocking", task.blocking)];
    for (key, is_set) in flags {
        if is_set {
            let _ = writeln!(text, "{key} = true");
        }
    }
    if let Some(rate) = task.rate {
        let _ = writeln!(text, "rate = \"{}/s\"", rate.per_second);
        let arrival = if rate.is_poisson { "poisson" } else { "constant" };
        let _ = writeln!(text, "arrival = \"{arrival}\"");
        let _ = writeln!(text, "ceiling = {}", rate.is_ceiling);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::draft_of;
    use crate::scenario::Scenario;

    #[test]
    fn every_draft_is_a_legal_file() {
        for seed in 0..2_000 {
            let draft = draft_of(seed);
            assert_eq!(draft, draft_of(seed));
            let text = toml(&draft, "say \"no\"\n");
            let scenario = Scenario::parse("draft", &text);
            let scenario = scenario.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
            assert_eq!(scenario.tasks.len(), draft.tasks.len());
            let wanted = draft.steps.iter().filter(|(_, scheduler)| scheduler.is_some()).count();
            assert!((wanted..=draft.steps.len()).contains(&scenario.steps.len()));
        }
    }
}
