//! Whatever happens in whatever order, a number stays with its group while a request has it.

use super::{Bench, IDLE, Pays};
use crate::fuse::who::cache::SHARDS;
use iopace_core::time::Nanos;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Start(u32, u8, bool),
    End(u32),
    Call(u32),
    Submit(usize),
    Pass(u64),
    Sweep,
    Create(u8),
    Remove(u8),
    Move(u32, u8),
}

fn step() -> impl Strategy<Value = Step> {
    let pid = || 2..6u32;
    let group = || 0..4u8;
    prop_oneof![
        2 => (pid(), group(), any::<bool>()).prop_map(|(a, b, c)| Step::Start(a, b, c)),
        2 => pid().prop_map(Step::End),
        6 => pid().prop_map(Step::Call),
        3 => (0..9usize).prop_map(Step::Submit),
        3 => (0..12_000u64).prop_map(Step::Pass),
        2 => Just(Step::Sweep),
        1 => group().prop_map(Step::Create),
        2 => group().prop_map(Step::Remove),
        2 => (pid(), group()).prop_map(|(a, b)| Step::Move(a, b)),
    ]
}

fn carry_out(bench: &Bench, step: &Step, held: &mut Vec<(Pays, String)>) {
    match *step {
        Step::Start(pid, group, is_idle) => {
            bench.proc.end(pid);
            bench.proc.start(pid, "x");
            bench.proc.set(pid, |made| {
                made.cgroup = format!("0::/g{group}\n");
                made.ioprio = if is_idle { IDLE } else { 0 };
                made.parent = pid - 1;
            });
        }
        Step::End(pid) => bench.proc.end(pid),
        Step::Call(pid) => {
            let pays = bench.of(pid);
            let path = bench.groups.path(pays.group());
            held.push((pays, path));
        }
        Step::Submit(at) if at < held.len() => drop(held.swap_remove(at)),
        Step::Submit(_) => {}
        Step::Pass(millis) => bench.proc.pass(Nanos::from_millis(millis)),
        Step::Sweep => (0..SHARDS).for_each(|_| bench.who.sweep()),
        Step::Create(group) => drop(bench.groups.create(&format!("/g{group}"), false)),
        Step::Remove(group) => drop(bench.groups.remove(&format!("/g{group}"))),
        Step::Move(pid, group) => drop(bench.groups.move_process(pid, &format!("/g{group}"))),
    }
}

proptest! {
    #[test]
    fn a_number_stays_with_its_group(steps in prop::collection::vec(step(), 1..120)) {
        let bench = Bench::new(&["map=cgroup"]);
        let mut held = Vec::new();
        for step in &steps {
            carry_out(&bench, step, &mut held);
            for (pays, path) in &held {
                prop_assert_eq!(&bench.groups.path(pays.group()), path, "after {:?}", step);
            }
            // Nobody is known to pay as a group that is not there.
            let paths = bench.paths();
            let (all, _) = bench.groups.processes(100);
            prop_assert!(all.iter().all(|one| paths.contains(&one.group)), "{:?}", all);
        }
        held.clear();
        (2..6).for_each(|pid| bench.proc.end(pid));
        for _ in 0..4 {
            (0..SHARDS).for_each(|_| bench.who.sweep());
            bench.proc.pass(Nanos::from_millis(10_000));
        }
        prop_assert_eq!(bench.groups.dying_count(), 0);
        let made_by_hand = bench.paths();
        prop_assert!(made_by_hand.iter().all(|path| !path.contains("idle")), "{:?}", made_by_hand);
    }
}

#[test]
fn threads_call_while_groups_come_and_go() {
    let bench = Bench::new(&[]);
    bench.proc.start(7, "x");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5_000 {
                    let pays = bench.of(7);
                    let path = bench.groups.path(pays.group());
                    std::thread::yield_now();
                    assert_eq!(bench.groups.path(pays.group()), path);
                }
            });
        }
        for round in 0..2_000 {
            let (old, new) = (format!("/g{round}"), format!("/g{}", round + 1));
            bench.groups.create(&new, false).expect("made");
            bench.groups.move_process(7, &new).expect("moved");
            if round > 0 {
                bench.groups.remove(&old).expect("nobody pays as it");
            }
        }
    });
    assert_eq!(bench.path(7), "/g2000");
    bench.groups.create("/last", false).expect("made");
    assert_eq!((bench.groups.dying_count(), bench.groups.count()), (0, 3));
}
