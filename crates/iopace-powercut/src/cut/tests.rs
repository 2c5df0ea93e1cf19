use super::*;
use crate::node::{Fill, Node, NodeKind, ROOT, SECTOR};
use std::collections::BTreeSet;

const FILE: NodeId = 2;
const OTHER: NodeId = 3;

fn base() -> Nodes {
    let root = Node::new(NodeKind::Directory, 0o755);
    let file = |first| Arc::new(Node::file(vec![first; SECTOR]));
    Nodes::from([(ROOT, Arc::new(root)), (FILE, file(1)), (OTHER, file(2))])
}

fn write(node: NodeId, sector: usize, byte: u8) -> Event {
    let (offset, fill) = ((sector * SECTOR) as u64, Fill::Data(Arc::from([byte; SECTOR])));
    Event::Change(Change::Fill { node, offset, fill })
}

fn names(all: &[(&str, Option<NodeId>)]) -> Event {
    let all = all.iter().map(|(name, node)| (ROOT, (*name).into(), *node));
    Event::Change(Change::Names(all.collect()))
}

fn sync(node: NodeId, data_only: bool) -> Event {
    Event::Sync(Sync::all(node, data_only))
}

fn cut(events: &[Event], order: Names) -> Vec<Nodes> {
    let mut cutter = Cutter::new(base(), order);
    events.iter().for_each(|event| cutter.push(event));
    let choices = cutter.choices(50, &mut Random(1));
    choices.iter().map(|choice| cutter.state(choice)).collect()
}

fn contents(states: &[Nodes]) -> BTreeSet<Vec<u8>> {
    states.iter().map(|nodes| nodes[&FILE].data.chunks(SECTOR).map(|s| s[0]).collect()).collect()
}

fn seen_names(states: &[Nodes]) -> BTreeSet<Vec<String>> {
    let names = |nodes: &Nodes| {
        nodes[&ROOT].entries.keys().map(|name| name.to_string_lossy().into_owned()).collect()
    };
    states.iter().map(names).collect()
}

#[test]
fn what_was_synced_is_there_and_the_rest_may_be() {
    let events = [write(FILE, 0, 5), sync(FILE, true), write(FILE, 1, 6), write(FILE, 2, 7)];
    let all = contents(&cut(&events, Names::Apart));
    assert!(all.iter().all(|sectors| sectors[0] == 5), "{all:?}");
    for sectors in [&[5][..], &[5, 6], &[5, 0, 7], &[5, 6, 7]] {
        assert!(all.contains(sectors), "{sectors:?} of {all:?}");
    }
}

#[test]
fn a_sync_of_another_file_covers_nothing_here() {
    let all = contents(&cut(&[write(FILE, 0, 5), sync(OTHER, false)], Names::Apart));
    assert_eq!(all, BTreeSet::from([vec![1], vec![5]]));
}

#[test]
fn a_durable_write_covers_its_range_only() {
    let range = Some(0..SECTOR as u64);
    let sync = Event::Sync(Sync { node: FILE, data_only: true, range });
    let all = contents(&cut(&[write(FILE, 1, 6), write(FILE, 0, 5), sync], Names::Apart));
    assert_eq!(all, BTreeSet::from([vec![5], vec![5, 0], vec![5, 6]]));
}

#[test]
fn times_need_a_full_sync() {
    let stamps = |events: &[Event]| -> BTreeSet<u64> {
        cut(events, Names::Apart).iter().map(|nodes| nodes[&FILE].stamp).collect()
    };
    let (write, other) = (write(FILE, 0, 5), write(OTHER, 0, 5));
    let open = [write.clone(), sync(FILE, true), other.clone()];
    assert_eq!(stamps(&open), BTreeSet::from([0, 1]));
    assert_eq!(stamps(&[write, sync(FILE, false), other]), BTreeSet::from([1]));
}

#[test]
fn a_rename_is_there_or_is_not_and_its_directory_makes_it_durable() {
    let events =
        [names(&[("a", Some(FILE))]), sync(ROOT, false), names(&[("a", None), ("b", Some(FILE))])];
    let both = BTreeSet::from([vec!["a".to_string()], vec!["b".to_string()]]);
    assert_eq!(seen_names(&cut(&events, Names::Apart)), both);
    let synced = [&events[..], &[sync(ROOT, false)]].concat();
    assert_eq!(seen_names(&cut(&synced, Names::Apart)), BTreeSet::from([vec!["b".to_string()]]));
}

#[test]
fn a_journal_keeps_the_order_of_names_and_a_file_commits_it() {
    let events = [names(&[("a", Some(FILE))]), names(&[("b", Some(OTHER))])];
    let apart = seen_names(&cut(&events, Names::Apart));
    assert!(apart.contains(&vec!["b".to_string()]));
    let ordered = seen_names(&cut(&events, Names::Journal));
    assert!(!ordered.contains(&vec!["b".to_string()]), "{ordered:?}");
    let synced = [&events[..], &[sync(FILE, false)]].concat();
    assert!(seen_names(&cut(&synced, Names::Apart)).contains(&vec![]));
    assert!(!seen_names(&cut(&synced, Names::Journal)).contains(&vec![]));
}
