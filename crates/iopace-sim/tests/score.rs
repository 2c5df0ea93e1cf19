//! The reviewed scorecard: a change of a policy or a model shows as scores moving in its diff.
//!
//! `IOPACE_BLESS=1 cargo test -p iopace-sim --test score` writes it anew; the commit then says in
//! words why scores moved.

use ::parquet::file::reader::{FileReader, SerializedFileReader};
use iopace_sim::milli::Milli;
use iopace_sim::score::{BENCHES, Policy, Score, print, score};
use iopace_sim::study::parquet;
use std::path::Path;

const MANUAL: (&str, &str) = ("<!-- scores -->\n\n", "\n<!-- end of scores -->");

#[test]
fn the_scorecard_is_as_reviewed_and_as_in_the_manual() {
    let scores = score(&Policy::all(), &BENCHES, 1, &|_, _| ());
    let text = print::table(&scores);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (path, page) = (root.join("snapshots/score.txt"), root.join("docs/scorecard.md"));
    let manual = std::fs::read_to_string(&page).expect("docs/scorecard.md");
    let begin = manual.find(MANUAL.0).expect("its marker") + MANUAL.0.len();
    let end = manual.find(MANUAL.1).expect("its end marker");
    if std::env::var_os("IOPACE_BLESS").is_some() {
        std::fs::write(&path, &text).expect("the folder snapshots/ of the project");
        let manual = format!("{}{text}{}", &manual[..begin], &manual[end..]);
        std::fs::write(&page, manual).expect("the folder docs/ of the project");
        return;
    }
    let reviewed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == reviewed,
        "the scores differ from snapshots/score.txt (IOPACE_BLESS=1 accepts it):\n{text}"
    );
    assert_eq!(&manual[begin..end], text, "docs/scorecard.md (IOPACE_BLESS=1 writes it)");
    every_score_is_within_its_bounds(&scores);
}

fn every_score_is_within_its_bounds(scores: &[Score]) {
    assert_eq!(scores.len(), Policy::all().len() * BENCHES.len());
    for score in scores {
        for (name, of) in print::MEASURES {
            let value = of(score);
            let at = format!("{} on {}: {name}", score.sched, score.disk);
            assert!(value >= Milli(0) && value <= Milli(100_000), "{at} is {value}");
        }
        assert!(score.raw.iter().all(|raw| raw.figure == "rise_ms" || raw.value.is_some()));
    }
}

#[test]
fn a_scheduler_with_groups_is_fairer_than_one_without() {
    let wanted = |name| iopace_core::sched::find(name);
    let policies = [Policy::of(wanted("fifo")), Policy::of(wanted("fair"))];
    let one = score(&policies, &BENCHES[2..3], 7, &|_, _| ());
    let [fifo, fair] = &one[..] else { panic!("two scores") };
    assert!(fair.fairness > fifo.fairness, "{fifo:?} {fair:?}");
    let two = score(&policies, &BENCHES[2..3], 7, &|_, _| ());
    assert_eq!(print::json(&one), print::json(&two));
    assert_eq!(print::csv(&one).lines().count(), 3);
    let columns = print::columns(&one);
    let bytes = parquet::parquet("score", &columns).expect("written");
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a Parquet file");
    let row = reader.get_row_iter(None).expect("rows").nth(1).expect("two").expect("a row");
    let cells: Vec<String> = row.get_column_iter().map(|(_, cell)| cell.to_string()).collect();
    assert_eq!(cells[..4], ["\"fair\"", "\"fixed\"", "\"rate\"", "\"ssd-sata\""]);
    assert_eq!(cells.len(), columns.len());
}
