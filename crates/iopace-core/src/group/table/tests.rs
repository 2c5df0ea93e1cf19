use super::*;
use crate::group::{Limits, Rates, Slots};
use crate::time::Nanos;
use core::num::NonZeroU64;

fn limited() -> Settings {
    let sustained = Rates { bps: NonZeroU64::new(1_000), ..Rates::default() };
    Settings { max: Limits { sustained, ..Limits::default() }, ..Settings::default() }
}

fn idle() -> Settings {
    Settings { class: Class::Idle, ..Settings::default() }
}

/// `1` with `2` with `3`, and `4`, all without settings.
fn world() -> Groups {
    let mut groups = Groups::default();
    for (id, parent) in [(1, 0), (2, 1), (3, 2), (4, 0)] {
        assert_eq!(groups.set(GroupId(id), GroupId(parent), &Settings::default()), None);
    }
    groups
}

fn numbers(ids: impl Iterator<Item = GroupId>) -> Vec<u32> {
    ids.map(|id| id.0).collect()
}

fn limits(groups: &Groups, id: u32) -> Vec<u32> {
    numbers(groups.chain(GroupId(id), SettingKind::Limit))
}

/// The chain of each group is that of the walk through all above it.
fn check(groups: &Groups) {
    for id in (0..groups.end() + 2).map(GroupId) {
        assert_eq!(groups.rows[id].children_count as usize, groups.children(id).count(), "{id:?}");
        if !groups.knows(id) {
            continue;
        }
        let way: Vec<GroupId> = groups.up(id).chain([GroupId::ROOT]).collect();
        for kind in SettingKind::ALL {
            let walked = way.iter().copied().filter(|id| kind.is_set(groups.settings(*id)));
            assert_eq!(numbers(groups.chain(id, kind)), numbers(walked), "{id:?} {kind:?}");
        }
        let classes = way.iter().rev().map(|id| groups.settings(*id).class);
        let class = classes.fold(Class::default(), |above, class| class.within(above));
        assert_eq!(groups.class(id), class, "{id:?}");
        assert_eq!(groups.weight(id), groups.settings(id).weight, "{id:?}");
    }
}

#[test]
fn parents_are_told_before_children() {
    let mut groups = Groups::default();
    for (id, parent) in [(1, 4), (2, 1), (4, 3), (3, 0), (5, 0)] {
        groups.set(GroupId(id), GroupId(parent), &Settings::default());
    }
    assert_eq!(numbers(groups.in_order().into_iter()), [0, 3, 5, 4, 1, 2]);
    assert_eq!(numbers(groups.up(GroupId(2))), [2, 1, 4, 3]);
    assert_eq!(numbers(groups.children(GroupId::ROOT)), [3, 5]);
    check(&groups);
}

#[test]
fn the_settings_before_are_told_of_a_group_that_stays_where_it_is() {
    let mut groups = world();
    assert_eq!(groups.set(GroupId(2), GroupId(1), &limited()), Some(Settings::default()));
    assert_eq!(groups.set(GroupId(2), GroupId(4), &limited()), None, "it has moved");
    groups.remove(GroupId(2));
    assert_eq!(groups.set(GroupId(2), GroupId(4), &idle()), None, "it is alive again");
    assert!(!groups.is_dying(GroupId(2)));
    groups.enter(GroupId(7));
    assert_eq!(groups.set(GroupId(7), GroupId::ROOT, &idle()), None, "nothing was told of it");
    assert_eq!(groups.set(GroupId::ROOT, GroupId::ROOT, &idle()), None);
    assert_eq!(groups.set(GroupId::ROOT, GroupId::ROOT, &limited()), Some(idle()));
    check(&groups);
}

#[test]
fn a_chain_has_the_groups_above_that_matter() {
    let mut groups = world();
    assert_eq!(limits(&groups, 3), [0; 0]);
    groups.set(GroupId(1), GroupId::ROOT, &limited());
    assert_eq!(limits(&groups, 3), [1]);
    groups.set(GroupId(3), GroupId(2), &limited());
    assert_eq!(limits(&groups, 3), [3, 1]);
    groups.set(GroupId::ROOT, GroupId::ROOT, &limited());
    assert_eq!(limits(&groups, 3), [3, 1, 0]);
    groups.enter(GroupId(99));
    assert_eq!(limits(&groups, 99), [0], "a group that was never told of is below the root");
    let target = Settings { latency: Some(Nanos(1)), ..limited() };
    groups.set(GroupId(2), GroupId(1), &target);
    assert_eq!(limits(&groups, 3), [3, 2, 1, 0]);
    assert_eq!(numbers(groups.chain(GroupId(3), SettingKind::Target)), [2]);
    groups.set(GroupId::ROOT, GroupId::ROOT, &Settings::default());
    groups.set(GroupId(1), GroupId::ROOT, &Settings::default());
    assert_eq!((limits(&groups, 3), limits(&groups, 99)), (vec![3, 2], vec![]));
    check(&groups);
}

#[test]
fn a_group_that_moves_takes_those_below_along() {
    let mut groups = world();
    groups.set(GroupId(4), GroupId::ROOT, &Settings { class: Class::Idle, ..limited() });
    groups.set(GroupId(2), GroupId(4), &Settings::default());
    assert_eq!((limits(&groups, 3), groups.class(GroupId(3))), (vec![4], Class::Idle));
    check(&groups);
    groups.set(GroupId(2), GroupId(1), &Settings::default());
    assert_eq!((limits(&groups, 3), groups.class(GroupId(3))), (vec![], Class::BestEffort));
    check(&groups);
    // None goes below itself.
    groups.set(GroupId(2), GroupId(3), &limited());
    groups.set(GroupId(3), GroupId(3), &idle());
    assert_eq!((groups.parent(GroupId(2)), groups.parent(GroupId(3))), (GroupId(1), GroupId(2)));
    check(&groups);
}

#[test]
fn a_group_that_is_forgotten_leaves_nothing() {
    let mut groups = world();
    groups.set(GroupId(2), GroupId(1), &limited());
    groups.remove(GroupId(2));
    assert!(groups.is_dying(GroupId(2)) && groups.knows(GroupId(2)));
    assert_eq!(limits(&groups, 3), [2], "it is there until it is forgotten");
    groups.forget(GroupId(2));
    assert!(!groups.knows(GroupId(2)) && !groups.is_dying(GroupId(2)));
    assert_eq!((limits(&groups, 3), groups.settings(GroupId(2))), (vec![], &Settings::default()));
    assert_eq!(numbers(groups.children(GroupId(1))), [0; 0]);
    check(&groups);
    [3, 4].into_iter().for_each(|id| groups.forget(GroupId(id)));
    assert_eq!(groups.end(), 2, "places at the end are given back");
    groups.forget(GroupId(99));
    groups.forget(GroupId::ROOT);
    assert!(groups.knows(GroupId::ROOT));
    check(&groups);
}

#[test]
fn any_changes_leave_the_chains_of_a_walk() {
    let mut groups = Groups::default();
    let mut random = 1u64;
    let mut any = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % below
    };
    for _ in 0..3_000 {
        let (id, parent) = (GroupId(any(9) as u32), GroupId(any(9) as u32));
        let slots = Slots { guaranteed: any(3) as u32, ..Slots::default() };
        let mut settings = if any(3) == 0 { limited() } else { Settings { slots, ..idle() } };
        settings.latency = (any(4) == 0).then_some(Nanos(5));
        settings.min.rbps = NonZeroU64::new(any(2));
        match any(6) {
            0 => groups.forget(id),
            1 => groups.remove(id),
            2 => groups.enter(id),
            _ => _ = groups.set(id, parent, &settings),
        }
        check(&groups);
    }
}

#[test]
fn a_column_has_a_default_for_every_group() {
    let mut column = Column::<u32>::default();
    assert_eq!(column[GroupId(3)], 0);
    column[GroupId(3)] = 7;
    assert_eq!((column[GroupId(3)], column[GroupId(2)], column[GroupId(4)]), (7, 0, 0));
    assert_eq!((column.take(GroupId(3)), column.take(GroupId(9))), (7, 0));
    assert_eq!(column[GroupId(3)], 0);
}
