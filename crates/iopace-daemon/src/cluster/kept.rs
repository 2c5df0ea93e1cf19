//! What a host keeps on its own disk, so that the limits hold as well when it starts in the dark.

use super::records::{LimitKey, TermsRecord};
use crate::printable::name as name_of;
use crate::runtime_files::{Distrust, RuntimeDir};
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
    /// Hosts that may have a static part; zero: it was not kept.
    #[serde(default)]
    pub(super) hosts_max: u32,
    /// The hosts that have one, by number.
    #[serde(default)]
    pub(super) places: BTreeMap<u32, String>,
    /// Lines by group and file, as they were set.
    pub(super) set: Vec<(String, String, String)>,
}

/// Where it is kept.
fn name(volume: &str) -> OsString {
    format!("cluster-{volume}.json").into()
}

impl KeptVolume {
    /// That of a volume, if this host has kept one. A file that cannot be read is told of in the
    /// log, and is as good as none.
    pub(super) fn read(state: &Path, volume: &str, host: &str) -> Option<KeptVolume> {
        let path = state.join(name(volume));
        let path = path.display();
        let directory = RuntimeDir::open(state).ok()?;
        let text = match directory.read(&name(volume), BYTES_MAX).map_err(Distrust::into_io) {
            Ok((_, text)) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(%error, "{path} cannot be read: nothing is known from before");
                return None;
            }
        };
        let kept: Result<KeptVolume, _> = serde_json::from_slice(&text);
        if let Err(error) = &kept {
            tracing::warn!(%error, "{path} is broken: nothing is known from before");
        }
        let kept = kept.ok()?;
        if kept.host != host {
            tracing::warn!("{path} is of the host '{}': it does not count", name_of(&kept.host));
            return None;
        }
        Some(kept)
    }

    /// Writes it in the place of what was kept before.
    ///
    /// # Errors
    /// What the system said; what was kept before stays.
    pub(super) fn write(&self, state: &Path, volume: &str) -> io::Result<()> {
        let directory = RuntimeDir::make(state).map_err(Distrust::into_io)?;
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
