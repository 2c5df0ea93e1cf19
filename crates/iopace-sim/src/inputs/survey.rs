//! What is in a trace: read once before it is replayed, in memory that does not grow with it.

use super::order::Ordered;
use super::{InputError, OUTSTANDING_MAX, Record};
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;

/// What a whole trace holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Requests.
    pub requests_count: u64,
    /// Bytes that they move.
    pub bytes: Bytes,
    /// Time of the first one, on the trace's own clock.
    pub first: Nanos,
    /// From the first to the last.
    pub length: Nanos,
    /// The end of the last byte, for each volume.
    pub ends: Vec<Bytes>,
    /// Who asked, [`super::OTHERS`] last if there are too many.
    pub streams: Vec<String>,
    /// Disks or files.
    pub volumes: Vec<String>,
    /// How many requests were under way on average when it was recorded, rounded up, where the
    /// format tells.
    pub depth: Option<u32>,
}

impl Survey {
    /// Reads a trace to its end. `tick` is told now and then how many requests it has read.
    ///
    /// # Errors
    /// The first mistake in it, or that it has no request at all.
    pub fn of(trace: &mut Ordered<'_>, mut tick: impl FnMut(u64)) -> Result<Survey, InputError> {
        let mut survey = Survey::default();
        let (mut last, mut took, mut has_others) = (Nanos::ZERO, None::<u128>, false);
        for record in trace.by_ref() {
            let Record { at, op, offset, len, stream, volume, took: one, .. } = record?;
            if survey.requests_count == 0 {
                survey.first = at;
            }
            last = at;
            survey.requests_count += 1;
            if matches!(op, iopace_core::request::Op::Read | iopace_core::request::Op::Write) {
                survey.bytes += len;
            }
            let volume = volume as usize;
            if survey.ends.len() <= volume {
                survey.ends.resize(volume + 1, Bytes::ZERO);
            }
            survey.ends[volume] = survey.ends[volume].max(offset + len);
            has_others |= stream as usize >= super::STREAMS_MAX;
            if let Some(one) = one {
                took = Some(took.unwrap_or(0) + u128::from(one.0));
            }
            if survey.requests_count.is_multiple_of(1 << 16) {
                tick(survey.requests_count);
            }
        }
        let names = trace.trace().names();
        if survey.requests_count == 0 {
            let message = "there is no request in it; of a blktrace only queued requests count \
                           (action Q): record with 'blktrace -a queue' or all actions";
            let file = trace.trace().file.clone();
            return Err(InputError { file, place: None, message: message.into() });
        }
        survey.length = last.saturating_sub(survey.first);
        survey.streams = names.streams().to_vec();
        if has_others {
            survey.streams.push(super::OTHERS.into());
        }
        survey.volumes = names.volumes().to_vec();
        survey.ends.resize(survey.volumes.len(), Bytes::ZERO);
        survey.depth = took.map(|took| {
            let depth = took.div_ceil(u128::from(survey.length.0).max(1));
            u32::try_from(depth.clamp(1, u128::from(OUTSTANDING_MAX))).unwrap_or(1)
        });
        Ok(survey)
    }

    /// The bytes that all volumes reach over, beside each other.
    pub fn span(&self) -> u128 {
        self.ends.iter().map(|end| u128::from(end.0)).sum()
    }
}
