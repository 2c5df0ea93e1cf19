use super::*;

const MIB: u64 = 1 << 20;
const MS: u64 = 1_000_000;

fn memory(limit: u64) -> Thresholds {
    Thresholds { background: Bytes(limit / 2), limit: Bytes(limit) }
}

fn limits(domain: &Domain) -> u64 {
    domain.budgets().iter().map(|budget| budget.device.limit.0).sum()
}

#[test]
fn p1_limits_and_what_is_above_them_never_exceed_memory() {
    let mut random = 1u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % below
    };
    for _ in 0..50 {
        let limit = 1 + next(1_000) * MIB;
        let mut domain = Domain::new(memory(limit));
        let mut dirty = vec![0u64; 0];
        let mut now = 0;
        for _ in 0..2_000 {
            now += next(300) * MS;
            if dirty.len() < 6 && next(50) == 0 || dirty.is_empty() {
                domain.add();
                dirty.push(0);
            }
            // Between reports a device dirties as much as it was told, and writes.
            let index = next(dirty.len() as u64) as usize;
            let written = next(dirty[index] + 1);
            dirty[index] -= written;
            let room = domain.budget(index).device.limit.0.saturating_sub(dirty[index]);
            dirty[index] += next(room + 1);
            let other = next(dirty.len() as u64) as usize;
            let room = domain.budget(other).device.limit.0.saturating_sub(dirty[other]);
            dirty[other] += next(room + 1);
            let size = Bytes(dirty[index]);
            domain.report(Instant(now), index, size, Bytes(written));
            assert!(limits(&domain) <= limit, "{domain:?}");
            let each = domain.budgets().into_iter().zip(&dirty);
            let used: u64 = each.map(|(budget, dirty)| budget.device.limit.0.max(*dirty)).sum();
            assert!(used <= limit, "{used} of {limit}: {domain:?}");
        }
    }
}

/// A disk of 100 MB/s and a stick of 5 MB/s share 800 MiB; the stick filled it all before.
#[test]
fn p2_a_slow_device_comes_down_to_its_share() {
    let mut domain = Domain::new(memory(800 * MIB));
    let stick = domain.add();
    let (mut dirty, rate) = ([800 * MIB, 0], [5 * MIB, 100 * MIB]);
    domain.report(Instant(0), stick, Bytes(dirty[0]), Bytes(0));
    let disk = domain.add();
    let mut held_until = None;
    for step in 1..=600u64 {
        let now = Instant(step * 200 * MS);
        for index in [stick, disk] {
            let written = dirty[index].min(rate[index] / 5);
            dirty[index] -= written;
            let budget = domain.report(now, index, Bytes(dirty[index]), Bytes(written));
            // It writes all it can, up to its limit.
            dirty[index] = dirty[index].max(budget.device.limit.0);
            assert!(dirty[0] + dirty[1] <= 800 * MIB);
        }
        let limit = domain.budget(stick).device.limit.0;
        let share = 100 * MIB + 600 * MIB * 5 / 105;
        if limit <= share * 11 / 10 {
            held_until.get_or_insert(step);
        }
    }
    let reached = held_until.expect("it comes down");
    assert!(reached <= 50, "its limit after {reached} intervals of 200 ms");
    // What it had dirty has drained as fast as it writes, and the disk has it now.
    assert!(domain.budget(disk).device.limit.0 >= 590 * MIB, "{domain:?}");
}

/// The same two begin at once, after some quiet reports, and each dirties all it may at any time.
#[test]
fn p2_a_slow_device_does_not_get_far_above_its_share() {
    let share = 100 * MIB + 600 * MIB * 5 / 105;
    for (order, quiet) in [([0, 1], 0), ([1, 0], 0), ([0, 1], 100), ([1, 0], 100)] {
        let mut domain = Domain::at_rest(memory(800 * MIB), 2);
        let (mut dirty, rate) = ([0, 0], [5 * MIB, 100 * MIB]);
        for step in 1..=400u64 {
            for index in order {
                if step > quiet {
                    dirty[index] = dirty[index].max(domain.budget(index).device.limit.0);
                }
                let written = dirty[index].min(rate[index] / 5);
                dirty[index] -= written;
                let now = Instant(step * 200 * MS);
                domain.report(now, index, Bytes(dirty[index]), Bytes(written));
            }
            assert!(dirty[0] <= share * 8 / 5, "{} MiB in step {step}", dirty[0] / MIB);
            let is_settled = step < quiet + 75 || dirty[0] <= share * 11 / 10;
            assert!(is_settled, "{} MiB in step {step}", dirty[0] / MIB);
        }
        assert!(domain.budget(1).device.limit.0 >= 590 * MIB, "{domain:?}");
    }
}

#[test]
fn p3_an_idle_device_keeps_its_floor() {
    let mut domain = Domain::new(memory(800 * MIB));
    let (idle, busy) = (domain.add(), domain.add());
    for step in 0..500u64 {
        let now = Instant(step * 200 * MS);
        domain.report(now, idle, Bytes(0), Bytes(0));
        domain.report(now, busy, Bytes(300 * MIB), Bytes(20 * MIB));
        assert!(domain.budget(idle).device.limit.0 >= 100 * MIB);
    }
    assert!(domain.budget(busy).device.limit.0 >= 690 * MIB, "{domain:?}");
    domain.set_ratios(busy, 0, 500);
    for step in 500..600u64 {
        domain.report(Instant(step * 200 * MS), busy, Bytes(300 * MIB), Bytes(20 * MIB));
    }
    assert_eq!(domain.budget(busy).device.limit, Bytes::from_mib(400));
}

#[test]
fn p4_a_device_alone_has_all() {
    let mut domain = Domain::new(memory(800 * MIB));
    let only = domain.add();
    for step in 0..100u64 {
        let budget = domain.report(Instant(step * 200 * MS), only, Bytes(MIB), Bytes(step));
        assert_eq!(budget.device, memory(800 * MIB));
        assert_eq!(budget.dirty_elsewhere, Bytes::ZERO);
    }
}

#[test]
fn p5_what_a_device_leaves_the_others_get() {
    // The second may have 80: the other two have floors of 100, and its 20 and the rest by 1 : 3.
    let mut domain = Domain::at_rest(memory(800 * MIB), 3);
    domain.set_ratios(1, 0, 100);
    for step in 0..400u64 {
        for (index, rate) in [(0, 1), (1, 6), (2, 3)] {
            let now = Instant(step * 200 * MS);
            domain.report(now, index, Bytes(0), Bytes(rate * MIB));
        }
    }
    let all: Vec<u64> = domain.budgets().iter().map(|one| one.device.limit.0 / MIB).collect();
    // Each is as of its own report, and so its own writes are a little newer than the others'.
    assert!(all[1] == 80 && (229..=237).contains(&all[0]), "{all:?}");
    assert!(all[2] >= 482 && all.iter().sum::<u64>() >= 798, "{all:?}");
}

#[test]
fn p5_division_is_exact_and_never_above_what_there_is() {
    let mut random = 7u64;
    let mut next = |bits: u32| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 1) >> (63 - bits)
    };
    for _ in 0..20_000 {
        let count = 1 + next(3) as usize;
        let bits = 1 + next(5) as u32 + next(4) as u32;
        let mut wants = Vec::new();
        for _ in 0..count {
            let (weight, has) = (if next(2) == 0 { 0 } else { next(bits) }, next(bits));
            wants.push(Want { weight, has, most: has + next(bits) });
        }
        let (before, rest) = (wants.clone(), next(bits));
        fill(&mut wants, rest);
        let given = |at: usize| wants[at].has - before[at].has;
        let sum: u64 = (0..count).map(given).sum();
        let open = |at: &usize| wants[*at].weight > 0 && wants[*at].has < wants[*at].most;
        let open: Vec<usize> = (0..count).filter(open).collect();
        assert!(sum <= rest && wants.iter().all(|want| want.has <= want.most), "{wants:?}");
        // Nothing is left but the fractions, unless nobody may have it.
        assert!(open.is_empty() || rest - sum < open.len() as u64, "{before:?} {wants:?} {rest}");
        for &one in &open {
            let weight = |at: usize| u128::from(wants[at].weight);
            for other in (0..count).filter(|&other| weight(other) > 0) {
                // By weight, and nobody who is full has more than by weight.
                let (a, b) = (u128::from(given(one)), u128::from(given(other)));
                assert!(b * weight(one) <= (a + 1) * weight(other), "{before:?} {wants:?}");
            }
        }
    }
}

#[test]
fn p6_one_that_begins_among_idle_ones_grows_at_once() {
    let mut domain = Domain::at_rest(memory(800 * MIB), 3);
    for (step, limit) in [(1, 200), (2, 400), (3, 600), (4, 600)] {
        let dirty = domain.budget(1).device.limit.0 / 2;
        domain.report(Instant(step * MS), 1, Bytes(dirty), Bytes(0));
        assert_eq!(domain.budget(1).device.limit, Bytes::from_mib(limit));
        assert!(limits(&domain) <= 800 * MIB);
    }
    // Another one begins: nobody knows who is slow.
    domain.report(Instant(5 * MS), 0, Bytes(MIB), Bytes(0));
    assert_eq!(domain.budget(0).device.limit, Bytes::from_mib(100));
    domain.report(Instant(205 * MS), 1, Bytes(MIB), Bytes(0));
    assert!(domain.budget(1).device.limit < Bytes::from_mib(600));
}

#[test]
fn thresholds_are_made_of_sizes_and_of_parts() {
    let memory = Thresholds::of_memory(Bytes(1_000), BACKGROUND_PERCENT, LIMIT_PERCENT);
    assert_eq!(memory, Thresholds { background: Bytes(100), limit: Bytes(200) });
    assert_eq!(Thresholds::new(Bytes(9), Bytes(8)).background, Bytes(4));
    let most = Thresholds::of_memory(Bytes(u64::MAX), 255, 255);
    assert_eq!(most.limit, Bytes(u64::MAX));
}
