//! Comparisons: what they print adds up, and the same seed gives the same bytes.

use iopace_core::time::Nanos;
use iopace_sim::judge::judge;
use iopace_sim::scenario::Scenario;
use iopace_sim::stories;
use iopace_sim::study::compare::{Choices, variants};
use iopace_sim::study::summary::Summary;
use iopace_sim::study::{Outcome, html, outcomes, print};

fn story(name: &str) -> Scenario {
    let story = stories::find(name).expect("it comes with iopace");
    let mut scenario = Scenario::parse(name, story.text).expect("a sound story");
    scenario.duration = Nanos::from_secs(10);
    scenario
}

fn summaries(all: &[Outcome]) -> Vec<Summary> {
    all.iter().map(|outcome| outcome.summary.clone()).collect()
}

fn choices(seeds: &[u64]) -> Choices {
    let schedulers = vec![None, iopace_core::sched::find("rr"), iopace_core::sched::find("fair")];
    Choices { schedulers, seeds: seeds.to_vec(), ..Choices::default() }
}

#[test]
fn a_comparison_repeats_byte_for_byte_and_agrees_with_single_runs() {
    let scenario = story("geom-dd-read-cvs-rr");
    let variants = variants(&scenario, &choices(&[]));
    let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
    assert_eq!(names, ["none", "rr", "fair"]);
    let all = outcomes(&variants, &|_, _| ());
    let again = outcomes(&variants, &|_, _| ());
    assert_eq!(html::page("a", &scenario, &all, &[]), html::page("a", &scenario, &again, &[]));
    let single = judge(&scenario);
    for row in &all[1].summary.tasks {
        let of = &single.tasks[&row.task];
        assert_eq!((row.mb_s, row.p99_ms, row.share), (of.mb_s, of.latency.p99_ms, of.share));
    }
    assert_eq!(all[1].summary.whole.efficiency, single.efficiency);
    let share = |place: usize| all[place].summary.task("cvs").expect("cvs").share;
    assert!(share(1) > share(0), "rr serves cvs better than the elevator");
}

#[test]
fn every_form_has_every_row() {
    let all = outcomes(&variants(&story("geom-dd-read-cvs-rr"), &choices(&[])), &|_, _| ());
    let all = summaries(&all);
    let csv = print::csv(&all);
    assert!(csv.starts_with("variant,scheduler,task,group,kind,mb_s,"), "{csv}");
    let fields: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(fields.len(), 1 + 3 * 3, "a header, and two tasks and a whole per variant");
    assert!(fields.iter().all(|count| *count == fields[0]), "{csv}");
    let table = print::table(&all);
    let row = |variant: &str, task: &str| {
        let mut lines = table.lines();
        lines.find(|l| l.starts_with(variant) && l.contains(task)).expect("a row").to_owned()
    };
    assert!(row("none", "cvs").contains('-') && row("rr", "cvs").contains('+'), "{table}");
    let json: Vec<Summary> = serde_json::from_str(&print::json(&all)).expect("JSON");
    assert_eq!(json, all, "what is written can be read");
}

#[test]
fn seeds_are_summed_up() {
    let scenario = story("geom-dd-read-cvs-rr");
    let all = outcomes(&variants(&scenario, &choices(&[1, 2])), &|_, _| ());
    let ones: Vec<Vec<Outcome>> = [1, 2]
        .iter()
        .map(|seed| outcomes(&variants(&scenario, &choices(&[*seed])), &|_, _| ()))
        .collect();
    let row = |outcome: &Outcome| outcome.summary.task("cvs").expect("cvs").clone();
    let (both, one, two) = (row(&all[1]), row(&ones[0][1]), row(&ones[1][1]));
    assert_eq!(both.ops, one.ops + two.ops);
    assert_eq!(both.mb_s_max, one.mb_s.max(two.mb_s));
    assert_eq!(both.max_ms, one.max_ms.max(two.max_ms));
    assert!((2 * both.mb_s.0 - one.mb_s.0 - two.mb_s.0).abs() <= 1);
    assert_ne!(one.ops, two.ops, "two seeds are two runs");
}
