//! A recording of a device over the control socket: lines of JSON, one [`RecordPiece`] each.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use utoipa::ToSchema;

/// A piece of a recording: requests that have ended, with the names that were not told before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecordPiece {
    /// How long the recording has gone on.
    pub at_ns: u64,
    /// Tasks that are named for the first time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<RecordName>,
    /// Groups that are named for the first time, by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<RecordName>,
    /// Requests in the order of their ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RecordRequest>,
    /// Requests for which there was no room, since the beginning.
    pub left_out_count: u64,
    /// Whether it is the last piece.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end: bool,
}

/// The name that belongs to a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecordName {
    /// The number.
    pub number: u64,
    /// The name.
    pub name: String,
}

/// A request that has ended. Times count from the beginning of the recording; what came before it
/// has a negative one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecordRequest {
    /// When it came.
    pub arrived_ns: i64,
    /// When it was given to the disk; of what was not there, when it ended.
    pub started_ns: i64,
    /// When it ended.
    pub done_ns: i64,
    /// `read`, `write`, `flush`, `trim`, `zero` or `cache`.
    #[schema(value_type = String)]
    pub op: Cow<'static, str>,
    /// Letters: `b` a buffered write, `w` write-back, `f` forced to the medium, `a` nobody waits
    /// for it; of a flush, `p` it covers its extent only, `n` it covers nothing.
    pub flags: String,
    /// The task that asked, by number.
    pub task: u64,
    /// The group that paid, by number.
    pub group: u32,
    /// The owner of the extent: 0 is the disk, another number a file of a mount.
    pub space: u32,
    /// The first byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}
