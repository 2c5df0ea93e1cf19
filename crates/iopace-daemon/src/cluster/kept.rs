//! What a host keeps on its own disk, so that the limits hold as well when it starts in the dark.

use super::records::{LimitKey, TermsRecord};
use crate::runtime_files::RuntimeDir;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;

/// Longest file: some ten thousand limits. No more is written than is read.
const BYTES_MAX: u64 = 8 << 20;

/// A volume as it was last seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeptVolume {
    /// The host whose slot it is.
    pub(super) host: String,
    pub(super) slot: Option<u32>,
    pub(super) limits: BTreeMap<LimitKey, TermsRecord>,
    /// Lines by group and file, as they were set.
    pub(super) set: Vec<(String, String, String)>,
}

/// Where it is kept.
fn name(volume: &str) -> OsString {
    format!("cluster-{volume}.json").into()
}

impl KeptVolume {
    /// That of a volume, if this host has kept one.
    pub(super) fn read(state: &Path, volume: &str, host: &str) -> Option<KeptVolume> {
        let directory = RuntimeDir::open(state).ok()?;
        let (_, text) = directory.read(&name(volume), BYTES_MAX).ok()?;
        let kept: KeptVolume = serde_json::from_slice(&text).ok()?;
        (kept.host == host).then_some(kept)
    }

    /// Writes it in the place of what was kept before.
    ///
    /// # Errors
    /// What the system said; what was kept before stays.
    pub(super) fn write(&self, state: &Path, volume: &str) -> io::Result<()> {
        let directory = RuntimeDir::make(state).map_err(crate::runtime_files::Distrust::into_io)?;
        let mut text = serde_json::to_vec(self).map_err(io::Error::from)?;
        if text.len() as u64 > BYTES_MAX {
            // Limits come first.
            let limits = KeptVolume { set: Vec::new(), ..self.clone() };
            text = serde_json::to_vec(&limits).map_err(io::Error::from)?;
        }
        if text.len() as u64 > BYTES_MAX {
            return Err(io::Error::other(format!("it is longer than {BYTES_MAX} bytes")));
        }
        directory.replace(&name(volume), &text)
    }
}
