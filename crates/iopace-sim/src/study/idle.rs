//! Keys that were set to several values and changed nothing.

use super::summary::Summary;
use std::collections::BTreeMap;

/// Why a key may have no effect, by how it begins.
const REASONS: [(&str, &str); 4] = [
    (
        "disk.depth",
        "a disk never holds more requests than its model takes ('iopace models NAME'), nor more \
         than the tasks have outstanding ('depth' of a task)",
    ),
    ("disk.set.queue_depth", "the tasks may have no more requests outstanding ('depth' of a task)"),
    ("check.", "a check changes no figure, and as many hold with each"),
    ("seed", "nothing in this scenario is drawn at random"),
];

/// One sentence for each key that changed nothing: with all other keys alike, every one of its
/// values gives the same figures to the last digit.
pub fn warnings(all: &[Summary]) -> Vec<String> {
    let mut keys: Vec<&str> = Vec::new();
    for setting in all.iter().flat_map(|summary| &summary.settings) {
        if !keys.contains(&setting.key.as_str()) {
            keys.push(&setting.key);
        }
    }
    keys.into_iter().filter_map(|key| warning(all, key)).collect()
}

fn warning(all: &[Summary], key: &str) -> Option<String> {
    let mut values: Vec<&str> = Vec::new();
    let mut firsts: BTreeMap<Vec<(&str, &str)>, &Summary> = BTreeMap::new();
    for summary in all {
        let settings = summary.settings.iter().map(|one| (one.key.as_str(), one.value.as_str()));
        let (of_key, others): (Vec<_>, Vec<_>) = settings.partition(|(name, _)| *name == key);
        let (_, value) = of_key.first()?;
        if !values.contains(value) {
            values.push(value);
        }
        let first = firsts.entry(others).or_insert(summary);
        let is_same = (&first.tasks, &first.whole, &first.by_seed)
            == (&summary.tasks, &summary.whole, &summary.by_seed);
        if !is_same {
            return None;
        }
    }
    let (first, last) = (values.first()?, values.last()?);
    let reason = REASONS.iter().find(|(beginning, _)| key.starts_with(beginning));
    let reason = reason.map_or(String::new(), |(_, reason)| format!(": {reason}"));
    (values.len() > 1).then(|| {
        let count = values.len();
        format!(
            "{key} changed nothing: its {count} values, {first} to {last}, give the same \
             figures{reason}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::milli::Milli;
    use crate::study::summary::{Setting, WholeRow};

    fn point(settings: &[(&str, &str)], mb_s: i64) -> Summary {
        let settings = settings
            .iter()
            .map(|(key, value)| Setting { key: (*key).into(), value: (*value).into() });
        Summary {
            variant: "a".into(),
            settings: settings.collect(),
            seeds: 1,
            tasks: Vec::new(),
            whole: WholeRow { mb_s: Milli(mb_s), ..WholeRow::default() },
            by_seed: Vec::new(),
        }
    }

    #[test]
    fn a_key_without_effect_is_named_and_one_with_effect_is_not() {
        let all = [
            point(&[("disk.depth", "1"), ("x", "a")], 1),
            point(&[("disk.depth", "2"), ("x", "a")], 1),
            point(&[("disk.depth", "1"), ("x", "b")], 5),
            point(&[("disk.depth", "2"), ("x", "b")], 5),
        ];
        let found = warnings(&all);
        let begins = "disk.depth changed nothing: its 2 values, 1 to 2, give the same figures: ";
        assert!(found.len() == 1 && found[0].starts_with(begins), "{found:?}");
        assert!(warnings(&all[..1]).is_empty(), "one value is no sweep");
        let mut changed = all.clone();
        changed[3].whole.mb_s = Milli(6);
        assert!(warnings(&changed).is_empty(), "one point that differs is an effect");
    }
}
