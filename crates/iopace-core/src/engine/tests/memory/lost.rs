//! Write-back that fails is told by the next flush, once.

use super::*;

#[test]
fn a_flush_after_a_lost_write_back_fails() {
    let mut engine = with_memory(0, 1 << 20);
    let all = write(&mut engine, 1, 1, 0, 4096);
    let Some(Output::Start(start)) = all.last() else { panic!("{all:?}") };
    engine.handle(Instant(2), Input::Submit(submit(7, Op::Flush, 0)));
    outputs(&mut engine, 2);
    let failed = Outcome::Failed(DiskError::Io);
    engine.handle(Instant(3), Input::Done { id: start.id, outcome: failed });
    let all = outputs(&mut engine, 3);
    let Some(Output::Start(start)) = all.last() else { panic!("{all:?}") };
    engine.handle(Instant(4), Input::Done { id: start.id, outcome: Outcome::Ok });
    let all = outputs(&mut engine, 4);
    assert!(matches!(&all[..], [Output::Finish(Finish { outcome, .. })] if *outcome == failed));
}

/// The outcome of a flush at an instant, at a disk that writes all else.
fn flush_outcome(engine: &mut Engine, at: u64) -> Outcome {
    engine.handle(Instant(at), Input::Submit(submit(at, Op::Flush, 0)));
    loop {
        let all = outputs(engine, at);
        assert!(!all.is_empty(), "it is never done");
        for output in all {
            match output {
                Output::Start(start) => {
                    let outcome = Outcome::Ok;
                    engine.handle(Instant(at), Input::Done { id: start.id, outcome });
                }
                Output::Finish(Finish { op: Op::Flush, outcome, .. }) => return outcome,
                _ => {}
            }
        }
    }
}

#[test]
fn a_write_back_lost_before_the_flush_came_is_told_by_it_and_by_no_other() {
    let mut engine = with_memory(0, 1 << 20);
    let all = write(&mut engine, 1, 1, 0, 4096);
    let Some(Output::Start(start)) = all.last() else { panic!("{all:?}") };
    let failed = Outcome::Failed(DiskError::Io);
    engine.handle(Instant(2), Input::Done { id: start.id, outcome: failed });
    outputs(&mut engine, 2);
    assert_eq!(flush_outcome(&mut engine, 3), failed, "nothing is dirty, and something was lost");
    assert_eq!(flush_outcome(&mut engine, 4), Outcome::Ok, "it has been told");
    engine.handle(
        Instant(6),
        Input::Dirtied {
            tag: Tag(6),
            task: TaskId(1),
            group: GroupId::ROOT,
            area: Extent::new(Bytes(36_864), Bytes(4096)).expect("small").into(),
        },
    );
    assert_eq!(flush_outcome(&mut engine, 6), Outcome::Ok, "all of this one is on the disk");
}
