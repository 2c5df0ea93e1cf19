//! The recording of a device, as it comes.

use super::live::opened;
use super::{ANSWER_BYTES_MAX, Client, ClientError, TIMEOUT, encode, runtime};
use crate::api::RecordPiece;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Incoming;
use iopace_core::time::Nanos;
use std::collections::VecDeque;
use tokio::runtime::Runtime;

impl Client {
    /// Records each request that a device gets, for so long. The recording ends early when the
    /// stream is dropped.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn record(&self, name: &str, length: Nanos) -> Result<RecordStream, ClientError> {
        let path = self.path.display().to_string();
        let runtime = runtime(&path)?;
        let ms = length.as_nanos() / 1_000_000;
        let route = format!("/v1/devices/{}/record?for_ms={ms}", encode(name));
        let body = opened(self, &runtime, self.request(Method::GET, &route, &[], Vec::new()))?;
        Ok(RecordStream { body, runtime, path, rest: Vec::new(), pieces: VecDeque::new() })
    }
}

/// A recording under way; blocking.
#[derive(Debug)]
pub struct RecordStream {
    runtime: Runtime,
    body: Incoming,
    /// The socket, for messages.
    path: String,
    /// The beginning of a line that has not come whole.
    rest: Vec<u8>,
    pieces: VecDeque<RecordPiece>,
}

impl RecordStream {
    /// Waits for the next piece; the daemon sends one twice a second.
    ///
    /// # Errors
    /// See [`ClientError`]; nothing more comes then.
    pub fn next_piece(&mut self) -> Result<RecordPiece, ClientError> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Ok(piece);
            }
            let body = &mut self.body;
            let frame =
                self.runtime.block_on(async { tokio::time::timeout(TIMEOUT, body.frame()).await });
            let frame = frame.map_err(|_| ClientError::Silent(self.path.clone()))?;
            let frame = frame.ok_or_else(|| ClientError::Ended(self.path.clone()))?;
            let frame = frame.map_err(|error| ClientError::Broken {
                path: self.path.clone(),
                error: error.into(),
            })?;
            if let Some(bytes) = frame.data_ref() {
                self.take(bytes)?;
            }
        }
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<(), ClientError> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let piece = serde_json::from_slice(&self.rest);
            self.rest.clear();
            self.pieces.push_back(piece.map_err(|error| self.garbled(error.to_string()))?);
        }
        self.rest.extend_from_slice(bytes);
        if self.rest.len() > ANSWER_BYTES_MAX {
            return Err(self.garbled("a line without an end".into()));
        }
        Ok(())
    }

    fn garbled(&self, error: String) -> ClientError {
        ClientError::Garbled(self.path.clone(), error)
    }
}
