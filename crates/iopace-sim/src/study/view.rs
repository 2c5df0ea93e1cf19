//! A recording as the plots of a report want it: whole numbers, one list for each curve.

use super::family::family;
use crate::look::Look;
use crate::record::{Recording, TaskRecord, kb_s};
use iopace_core::request::{Stage, StageTimes};
use iopace_core::stats::Histogram;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Most curves of one plot: more colours than this are not told apart.
pub const CURVES_MAX: usize = 12;

/// The percentiles of a report in thousandths, closer where the tail is.
pub const PERMILLE: [u64; 20] = [
    500, 550, 600, 650, 700, 750, 800, 850, 900, 925, 950, 960, 970, 980, 985, 990, 993, 996, 998,
    999,
];

/// Several tasks drawn as one.
struct Curve {
    name: String,
    members: Vec<usize>,
}

/// The curves for tasks: one each, or, if there are too many, one for each family (`dd-001`,
/// `dd-002` ... are `dd`), the last ones together.
fn curves(tasks: &[TaskRecord]) -> Vec<Curve> {
    let all = tasks.iter().enumerate();
    let mut curves: Vec<Curve> =
        all.map(|(place, task)| Curve { name: task.name.clone(), members: vec![place] }).collect();
    if curves.len() <= CURVES_MAX {
        return curves;
    }
    curves.clear();
    for (place, task) in tasks.iter().enumerate() {
        let family = family(&task.name);
        match curves.iter_mut().find(|curve| curve.name == family) {
            Some(curve) => curve.members.push(place),
            None => curves.push(Curve { name: family.into(), members: vec![place] }),
        }
    }
    if curves.len() > CURVES_MAX {
        let rest = curves.split_off(CURVES_MAX - 1);
        let members = rest.into_iter().flat_map(|curve| curve.members).collect();
        curves.push(Curve { name: "others".into(), members });
    }
    for curve in curves.iter_mut().filter(|curve| curve.members.len() > 1) {
        curve.name = format!("{} ({})", curve.name, curve.members.len());
    }
    curves
}

fn rates(recording: &Recording, members: &[usize]) -> Vec<u64> {
    let mut sums = vec![0u64; recording.looks.len()];
    for member in members {
        for (sum, bytes) in sums.iter_mut().zip(recording.tasks[*member].bytes()) {
            *sum += bytes;
        }
    }
    sums.into_iter().map(|bytes| kb_s(bytes, recording.step)).collect()
}

fn curve(recording: &Recording, curve: &Curve) -> Value {
    let mut latency = Histogram::default();
    let mut stages = StageTimes::default();
    for member in &curve.members {
        let task = &recording.tasks[*member];
        latency.merge(&task.latency);
        stages.add(&task.stages);
    }
    let quantiles = match latency.count() {
        0 => Vec::new(),
        _ => PERMILLE.iter().map(|permille| latency.quantile(*permille).0 / 1_000).collect(),
    };
    let waits = Stage::ALL.map(|stage| stages.by_stage(stage));
    json!({
        "name": curve.name,
        "kb_s": rates(recording, &curve.members),
        "latency_us": quantiles,
        "waits_us": waits.map(|wait| wait.0 / 1_000),
    })
}

/// The plots of a run.
pub fn view(recording: &Recording) -> Value {
    let tasks = curves(&recording.tasks);
    let mut curve_of = vec![0; recording.tasks.len()];
    for (place, curve) in tasks.iter().enumerate() {
        for member in &curve.members {
            curve_of[*member] = place;
        }
    }
    let groups = recording.groups();
    let has_groups = groups.iter().any(|(path, _)| *path != "/");
    let groups = groups
        .into_iter()
        .take(CURVES_MAX)
        .map(|(path, members)| json!({"name": path, "kb_s": rates(recording, &members)}));
    let groups: Vec<Value> = if has_groups { groups.collect() } else { Vec::new() };
    let looks = &recording.looks;
    let of = |value: &dyn Fn(&Look) -> u64| -> Vec<u64> { looks.iter().map(value).collect() };
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for look in looks {
        *reasons.entry(look.reason.name()).or_default() += 1;
    }
    let pauses = recording.pauses.iter();
    json!({
        "step_us": recording.step.0 / 1_000,
        "tasks": tasks.iter().map(|one| curve(recording, one)).collect::<Vec<Value>>(),
        "groups": groups,
        "queued": of(&|look| look.queued_count as u64),
        "in_flight": of(&|look| look.in_flight_count as u64),
        "paced": of(&|look| look.paced_count as u64),
        "window": of(&|look| u64::from(look.window.depth)),
        "dirty_kib": of(&|look| look.pace.dirty.0 >> 10),
        "freerun_kib": of(&|look| look.pace.freerun.0 >> 10),
        "setpoint_kib": of(&|look| look.pace.setpoint.0 >> 10),
        "limit_kib": of(&|look| look.pace.limit.0 >> 10),
        "busy_permille": recording.busy_permille(),
        "pauses": pauses
            .map(|pause| [pause.at.0 / 1_000, curve_of[pause.task] as u64, pause.pause.0 / 1_000])
            .collect::<Vec<[u64; 3]>>(),
        "pauses_count": recording.pauses_count,
        "reasons": reasons,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_tasks_are_drawn_by_family() {
        let mut tasks: Vec<TaskRecord> =
            (1..=20).map(|n| TaskRecord::new(&format!("dd-{n:02}"), "/")).collect();
        tasks.push(TaskRecord::new("reader", "/"));
        let curves = curves(&tasks);
        let names: Vec<&str> = curves.iter().map(|curve| curve.name.as_str()).collect();
        assert_eq!(names, ["dd (20)", "reader"]);
        assert_eq!(curves[0].members.len(), 20);
    }
}
