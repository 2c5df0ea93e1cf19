//! Comparisons: what they print adds up, and the same seed gives the same bytes.

use iopace_core::time::Nanos;
use iopace_sim::judge::judge;
use iopace_sim::scenario::Scenario;
use iopace_sim::stories;
use iopace_sim::study::columns::columns;
use iopace_sim::study::compare::{Choices, variants};
use iopace_sim::study::parquet::parquet as parquet_bytes;
use iopace_sim::study::summary::Summary;
use iopace_sim::study::sweep::{Axis, Store, points};
use iopace_sim::study::{StudyVariant, VariantOutcome, html, outcomes, print};
use std::collections::BTreeSet;

fn story(name: &str) -> Scenario {
    let story = stories::find(name).expect("it comes with iopace");
    let mut scenario = Scenario::parse(name, story.text).expect("a sound story");
    scenario.duration = Nanos::from_secs(10);
    scenario
}

fn summaries(all: &[VariantOutcome]) -> Vec<Summary> {
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

/// With the same heads and figures as the wide one.
#[test]
fn the_table_fits_into_eighty_columns() {
    let all = outcomes(&variants(&story("geom-dd-read-cvs-rr"), &choices(&[])), &|_, _| ());
    let all = summaries(&all);
    let narrow = print::table_within(&all, 80);
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    let words =
        |text: &str| -> BTreeSet<String> { text.split_whitespace().map(str::to_owned).collect() };
    let wide = print::table(&all);
    assert!(wide.lines().any(|line| line.chars().count() > 80), "{wide}");
    assert_eq!(words(&narrow), words(&wide));
}

#[test]
fn seeds_are_summed_up() {
    let scenario = story("geom-dd-read-cvs-rr");
    let all = outcomes(&variants(&scenario, &choices(&[1, 2])), &|_, _| ());
    let ones: Vec<Vec<VariantOutcome>> = [1, 2]
        .iter()
        .map(|seed| outcomes(&variants(&scenario, &choices(&[*seed])), &|_, _| ()))
        .collect();
    let row = |outcome: &VariantOutcome| outcome.summary.task("cvs").expect("cvs").clone();
    let (both, one, two) = (row(&all[1]), row(&ones[0][1]), row(&ones[1][1]));
    assert_eq!(both.ops, one.ops + two.ops);
    assert_eq!(both.mb_s_max, one.mb_s.max(two.mb_s));
    assert_eq!(both.max_ms, one.max_ms.max(two.max_ms));
    assert!((2 * both.mb_s.0 - one.mb_s.0 - two.mb_s.0).abs() <= 1);
    assert!((2 * both.p99_ms.0 - one.p99_ms.0 - two.p99_ms.0).abs() <= 1);
    // Two values: 12.706 * |a - b| / 2.
    let half = both.ci95.as_ref().expect("two seeds").mb_s.0;
    let wanted = 12_706 * (one.mb_s.0 - two.mb_s.0).abs() / 2_000;
    assert!((half - wanted).abs() <= 2, "{half} {wanted}");
    assert!(one.ci95.is_none() && ones[0][1].summary.by_seed.is_empty());
    let by_seed = &all[1].summary.by_seed;
    let seeds: Vec<u64> = by_seed.iter().map(|rows| rows.seed).collect();
    assert_eq!(seeds, [1, 2]);
    for (rows, alone) in by_seed.iter().zip(&ones) {
        assert_eq!(rows.tasks, alone[1].summary.tasks, "a seed's rows are those of its own run");
    }
    assert_ne!(one.ops, two.ops, "two seeds are two runs");
}

const SWEPT: &str = "why = \"x\"\nduration = \"2s\"\n[disk]\npreset = \"hdd-sata-250g-ncq\"\n\
                     [[task]]\nname = \"r\"\nkind = \"random\"\ndepth = 8\nsize = \"8GiB\"\n";

fn axes(texts: &[&str]) -> Vec<Axis> {
    texts.iter().map(|text| Axis::parse(text).expect("sound")).collect()
}

#[test]
fn points_are_the_product_of_the_values() {
    let all =
        points("a.toml", SWEPT, &axes(&["disk.depth=1,4", "task.r.block=4KiB..8KiB*2"]), 1, "a");
    let all = all.expect("sound");
    let names: Vec<&str> = all.iter().map(|point| point.variant.name.as_str()).collect();
    assert_eq!(names[0], "disk.depth=1, task.r.block=4KiB");
    assert_eq!((names.len(), names[3]), (4, "disk.depth=4, task.r.block=8KiB"));
    assert_eq!(all[3].variant.scenarios[0].window_depth, Some(4));
    let keys: std::collections::BTreeSet<&String> = all.iter().map(|point| &point.key).collect();
    assert_eq!(keys.len(), 4);
    let other = points("a.toml", SWEPT, &axes(&["disk.depth=1,4"]), 1, "b").expect("sound");
    let same = points("a.toml", SWEPT, &axes(&["disk.depth=1,4"]), 1, "a").expect("sound");
    assert_ne!(other[0].key, same[0].key, "another build knows nothing of this one's points");
}

#[test]
fn a_wrong_key_or_value_is_named() {
    let error = |axis: &str| points("a.toml", SWEPT, &axes(&[axis]), 1, "a").expect_err("wrong");
    assert_eq!(error("disk.depth=0"), "a.toml with disk.depth=0: the depth is 1 to 1024");
    assert!(error("task.x.block=4KiB").contains("no task 'x'; there are: r"));
    assert!(
        error("disk.dpeth=1").contains("disk.dpeth=1: there is no `dpeth`: did you mean `depth`?")
    );
    assert!(error("task.r.think=5").starts_with("a.toml with task.r.think=5: "));
}

#[test]
fn a_torn_file_is_gone_on_with() {
    let folder = std::env::temp_dir().join(format!("iopace-sweep-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("made");
    let path = folder.join("points.jsonl");
    let all = points("a.toml", SWEPT, &axes(&["disk.depth=1,2"]), 1, "a").expect("sound");
    let variants: Vec<StudyVariant> = all.iter().map(|point| point.variant.clone()).collect();
    let made = outcomes(&variants, &|_, _| ());
    let (mut store, known) = Store::open(&path).expect("opened");
    assert!(known.is_empty());
    for (point, outcome) in all.iter().zip(&made) {
        store.append(&point.key, outcome).expect("written");
    }
    drop(store);
    let bytes = std::fs::read(&path).expect("read");
    std::fs::write(&path, &bytes[..bytes.len() - 7]).expect("torn");
    let (mut store, known) = Store::open(&path).expect("opened");
    assert_eq!(known.get(&all[0].key), Some(&made[0]), "what was whole is kept as it was");
    assert!(!known.contains_key(&all[1].key), "what was torn is run again");
    store.append(&all[1].key, &made[1]).expect("written");
    drop(store);
    let (_, known) = Store::open(&path).expect("opened");
    let kept: Vec<_> = all.iter().map(|point| known.get(&point.key)).collect();
    assert_eq!(kept, [Some(&made[0]), Some(&made[1])], "as if it had not been torn");
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn a_parquet_file_has_the_cells_of_the_csv() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let all = outcomes(&variants(&story("geom-dd-read-cvs-rr"), &choices(&[])), &|_, _| ());
    let all = summaries(&all);
    let bytes = parquet_bytes("study", &columns(&all)).expect("written");
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a Parquet file");
    let rows: Vec<_> =
        reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect();
    let columns = columns(&all);
    assert_eq!(rows.len(), columns[0].cells.len());
    for (place, row) in rows.iter().enumerate() {
        for (column, (name, field)) in columns.iter().zip(row.get_column_iter()) {
            assert_eq!(&column.name, name);
            let text = match field {
                parquet::record::Field::Null => None,
                parquet::record::Field::Str(text) => Some(text.clone()),
                parquet::record::Field::Long(count) => Some(count.to_string()),
                parquet::record::Field::Double(figure) => Some(format!("{figure:.3}")),
                other => panic!("{other}"),
            };
            assert_eq!(column.cells.text(place), text, "{name}");
        }
    }
}

#[test]
fn means_have_their_intervals_and_seeds_in_every_form() {
    let scenario = story("geom-dd-read-cvs-rr");
    let outcomes = outcomes(&variants(&scenario, &choices(&[1, 2, 3])), &|_, _| ());
    let all = summaries(&outcomes);
    let row = all[1].task("cvs").expect("cvs");
    let half = row.ci95.as_ref().expect("three seeds").mb_s;
    let text = print::table(&all);
    assert!(text.contains(&format!("{:.2}", row.mb_s)) && text.contains(&format!(" ±{half:.2}")));
    let each = text.split("\neach seed:\n").nth(1).expect("rows of seeds");
    assert_eq!(each.lines().filter(|line| line.starts_with("rr ")).count(), 3 * 3, "{text}");
    let json: Vec<Summary> = serde_json::from_str(&print::json(&all)).expect("JSON");
    assert_eq!(json, all, "what is written can be read");
    let columns = columns(&all);
    let of = |name: &str| &columns.iter().find(|one| one.name == name).expect("there").cells;
    assert_eq!(of("seed").len(), 3 * 3 * (1 + 3));
    let rows = 0..of("seed").len();
    assert!(
        rows.clone().all(|at| of("seed").text(at).is_none() == of("mb_s_ci95").text(at).is_some())
    );
    assert_eq!(rows.filter(|at| of("seeds").text(*at).as_deref() == Some("3")).count(), 3 * 3);
    let picture = iopace_sim::study::plot::svg("seeds", &all);
    // The same means without intervals: an error bar has three lines, and there are six at least.
    let mut bare = all.clone();
    bare.iter_mut().flat_map(|one| &mut one.tasks).for_each(|task| task.ci95 = None);
    let lines = |svg: &str| svg.matches("<line").count();
    let without = lines(&iopace_sim::study::plot::svg("seeds", &bare));
    assert!(lines(&picture) >= without + 3 * 6, "{} lines, {without}", lines(&picture));
    let page = html::page("a", &scenario, &outcomes, &["scheduler".into()]);
    assert!(page.contains("<summary>Each seed</summary>") && page.contains("±"), "the report");
}
