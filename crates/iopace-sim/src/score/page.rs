//! The scorecard as one HTML file that needs nothing else: bars for each measure and disk, and the
//! table. Everything is text and style: it runs no script.

use super::Score;
use super::print::MEASURES;
use crate::markup::{escaped, head};
use crate::milli::Milli;
use std::fmt::Write as _;

/// What each measure is, in the order of the columns.
const MEANINGS: [&str; 6] = [
    "What a service that reads keeps of its rate beside a neighbour.",
    "What it keeps of its speed: its mean latency alone over that beside a neighbour.",
    "What a lone task of small weight or low class gets of the disk.",
    "What all get together, in shares of what each gets alone; at most 100.",
    "Jain's index of what equal and weighted tasks get.",
    "How soon a newcomer has its share: 100 within 100 ms.",
];

/// Colours that stay apart for colour-blind eyes (Okabe and Ito 2008), one for each scheduler, with
/// the text on them.
const COLOURS: [(&str, &str); 8] = [
    ("#999999", "#000"),
    ("#0072b2", "#fff"),
    ("#e69f00", "#000"),
    ("#009e73", "#000"),
    ("#cc79a7", "#000"),
    ("#56b4e9", "#000"),
    ("#d55e00", "#000"),
    ("#f0e442", "#000"),
];

/// The report; `seed` is what the mixes were drawn from.
pub fn page(scores: &[Score], seed: u64) -> String {
    let mut text = head("scorecard", false);
    let policies = scores.first().map_or(String::new(), |one| {
        format!(", with the window '{}' and the pace '{}'", one.window, one.pace)
    });
    let _ = write!(
        text,
        "<body>\n<header><h1>Scorecard</h1>\n<p class=\"dim\">Schedulers on a fixed set of mixes \
         and disks{}, seed {seed}. Scores are per cent; 100 is the best in every \
         measure.</p></header>\n<main>\n<section><h2>Means over all disks</h2>\n",
        escaped(&policies)
    );
    text.push_str(&means(scores));
    text.push_str("</section>\n<section><h2>Each measure and disk</h2>\n");
    text.push_str(&keys(scores));
    for (measure, meaning) in MEASURES.iter().zip(MEANINGS) {
        let _ = writeln!(text, "<h3>{}</h3>\n<p class=\"dim\">{meaning}</p>", measure.0);
        text.push_str("<div class=\"row\">\n");
        for disk in disks(scores) {
            text.push_str(&bars(scores, disk, measure.1));
        }
        text.push_str("</div>\n");
    }
    text.push_str("</section>\n<section><h2>Table</h2>\n");
    let header = ["sched", "disk"].into_iter().chain(MEASURES.iter().map(|(name, _)| *name));
    let rows = scores.iter().map(|score| {
        let names = [score.sched, score.disk].map(String::from);
        let values = MEASURES.iter().map(|(_, of)| whole(of(score)));
        names.into_iter().chain(values).collect()
    });
    text.push_str(&grid("Scores", header, rows));
    let _ = write!(
        text,
        "</section>\n</main>\n<footer><p>iopace {}, in virtual time: the same seed gives the same \
         scores.</p></footer>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    );
    text
}

/// A score as it is printed: in whole per cent.
fn whole(score: Milli) -> String {
    format!("{score:.0}")
}

/// Names in the order in which they come first.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut known: Vec<&str> = Vec::new();
    for name in names {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    known
}

fn disks(scores: &[Score]) -> Vec<&str> {
    distinct(scores.iter().map(|score| score.disk))
}

fn schedulers(scores: &[Score]) -> Vec<&str> {
    distinct(scores.iter().map(|score| score.sched))
}

/// The colour of a scheduler: the same in every panel.
fn colour(scores: &[Score], sched: &str) -> (&'static str, &'static str) {
    let place = schedulers(scores).iter().position(|name| *name == sched).unwrap_or(0);
    COLOURS[place % COLOURS.len()]
}

fn keys(scores: &[Score]) -> String {
    let mut text = String::from("<div class=\"keys\">");
    for sched in schedulers(scores) {
        let (back, _) = colour(scores, sched);
        let _ = write!(text, "<span><i style=\"background:{back}\"></i>{}</span>", escaped(sched));
    }
    text.push_str("</div>\n");
    text
}

/// The panel of a disk: a bar for each scheduler.
fn bars(scores: &[Score], disk: &str, of: fn(&Score) -> Milli) -> String {
    let mut text = format!("<figure><figcaption>{}</figcaption>\n", escaped(disk));
    for score in scores.iter().filter(|score| score.disk == disk) {
        let (value, sched) = (of(score), escaped(score.sched));
        let (back, ink) = colour(scores, score.sched);
        let number = whole(value);
        // What does not fit into its bar stands beside it.
        let (inside, beside) = match value < Milli(12_000) {
            true => ("", format!("<b class=\"beside\">{number}</b>")),
            false => (number.as_str(), String::new()),
        };
        let _ = writeln!(
            text,
            "<div class=\"bar\"><span>{sched}</span><div role=\"img\" aria-label=\"{sched}: \
             {number} %\"><b style=\"width:{value}%;background:{back};color:{ink}\">{inside}</b>\
             {beside}</div></div>"
        );
    }
    text.push_str("</figure>\n");
    text
}

/// Each scheduler's means over the disks.
fn means(scores: &[Score]) -> String {
    let header = ["sched", "disks"].into_iter().chain(MEASURES.iter().map(|(name, _)| *name));
    let rows = schedulers(scores).into_iter().map(|sched| {
        let own: Vec<&Score> = scores.iter().filter(|score| score.sched == sched).collect();
        let count = own.len().max(1) as i64;
        let mean = |of: fn(&Score) -> Milli| {
            let sum: i64 = own.iter().map(|score| of(score).0).sum();
            whole(Milli((sum + count / 2) / count))
        };
        let names = [sched.to_string(), own.len().to_string()];
        names.into_iter().chain(MEASURES.iter().map(|(_, of)| mean(*of))).collect()
    });
    grid("Means", header, rows)
}

/// A table. The best number of each column is marked, from the third column on, unless all are the
/// same.
fn grid<'a>(
    label: &str,
    header: impl Iterator<Item = &'a str>,
    rows: impl Iterator<Item = Vec<String>>,
) -> String {
    let rows: Vec<Vec<String>> = rows.collect();
    let number = |row: &Vec<String>, at: usize| row.get(at).and_then(|n| n.parse::<u64>().ok());
    let best = |at: usize| {
        let numbers = rows.iter().filter_map(|row| number(row, at));
        let (least, most) = (numbers.clone().min(), numbers.max());
        most.filter(|_| at >= 2 && least != most)
    };
    let mut text = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\">\n<table>\n\
         <thead><tr>"
    );
    for heading in header {
        let _ = write!(text, "<th scope=\"col\">{heading}</th>");
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for row in &rows {
        text.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let is_best = best(at).is_some() && best(at) == number(row, at);
            let class = if is_best { " class=\"best\"" } else { "" };
            let _ = write!(text, "<td{class}>{}</td>", escaped(cell));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody>\n</table>\n</div>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::super::{BENCHES, Policy, score};
    use super::*;

    #[test]
    fn the_page_has_every_score_as_a_bar_and_needs_nothing() {
        let policies = [Policy::of(None), Policy::of(iopace_core::sched::find("fair"))];
        let scores = score(&policies, &BENCHES[2..4], 1, &|_, _| ());
        let text = page(&scores, 1);
        for foreign in [" src=", "href=", "url(", "@import", "<link", "<script"] {
            assert!(!text.contains(foreign), "{foreign}");
        }
        assert_eq!(text.matches("class=\"bar\"").count(), 2 * 2 * MEASURES.len());
        for one in &scores {
            for (_, of) in MEASURES {
                let label =
                    format!("{}: {} %\"><b style=\"width:{}%", one.sched, whole(of(one)), of(one));
                assert!(text.contains(&label), "{label}");
            }
        }
        assert_eq!(text, page(&score(&policies, &BENCHES[2..4], 1, &|_, _| ()), 1));
        assert!(page(&[], 1).contains("Scorecard"));
    }
}
