//! Whether a disk works on one request after the other, as far as that was seen.

use super::split::ENOUGH_COUNT;
use iopace_core::request::TaskId;
use iopace_core::shadow::Recorded;

/// Requests of a task that are looked at for [`is_serial`].
const SERIAL_LOOKED_MAX: usize = 256;

/// So many times as many may end before such a request as were there before it: a kernel may let
/// some pass. Where more do, it was slow by itself.
const PASSED_TIMES: u64 = 3;

/// Whether the disk was seen to work on requests of a task only after those of others that it had
/// before them. These are at least four times as large: at a disk that works on all at once the
/// small ones would have ended before most of them. They ended behind nine of ten.
pub(super) fn is_serial(ended: &[Recorded], task: TaskId) -> bool {
    let own = ended.iter().filter(|one| one.submit.task == task && one.was_at_disk());
    let (mut before, mut waited_for, mut passed) = (0_u64, 0_u64, 0_u64);
    for one in own.filter(|one| one.beside > 2).take(SERIAL_LOOKED_MAX) {
        let size = one.submit.extent.len().get();
        let mut ahead = (0_u64, 0_u64, 0_u64);
        let mut later = 0;
        for other in ended.iter().filter(|other| other.was_at_disk()) {
            let is_there = other.started < one.started && other.ended > one.started;
            if is_there && other.submit.task != task {
                let has_ended = u64::from(other.ended <= one.ended);
                let bytes = other.submit.extent.len().get();
                ahead = (ahead.0 + 1, ahead.1 + has_ended, ahead.2 + bytes);
            }
            let is_later = other.started >= one.started && other.ended < one.ended;
            later += u64::from(is_later && other.submit.task != task);
        }
        if ahead.0 > 0 && size.saturating_mul(4) <= ahead.2 / ahead.0 {
            before += ahead.0;
            waited_for += ahead.1;
            passed += ahead.1 + later;
        }
    }
    before >= ENOUGH_COUNT && waited_for * 10 >= before * 9 && passed <= before * PASSED_TIMES
}
