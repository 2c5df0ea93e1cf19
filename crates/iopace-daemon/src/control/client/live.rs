//! Questions about what everything does, and the stream that tells it as it happens.

use super::sse::{Message, Parser};
use super::{ANSWER_BYTES_MAX, Client, ClientError, TIMEOUT, encode, refusal, runtime};
use crate::api::{EventReport, ExplainReport, LiveReport};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request};
use iopace_core::time::Nanos;
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Shortest and longest wait between two tries to come back to a daemon.
const AGAIN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));

impl Client {
    /// What everything did in the last interval; within the first second of a daemon it waits for
    /// it.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn live(&self) -> Result<LiveReport, ClientError> {
        self.get("/v1/live")
    }

    /// The last intervals, so many at most (1 to 120), oldest first.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn live_history(&self, most: usize) -> Result<Vec<LiveReport>, ClientError> {
        self.get(&format!("/v1/live?history={most}"))
    }

    /// Why the requests of a group, of a device or of all wait, over so long a time (first), and
    /// where time goes below iopace in a look that takes so long (second; zero: none is taken).
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn explain(
        &self,
        group: Option<&str>,
        device: Option<&str>,
        (over, look): (Nanos, Nanos),
    ) -> Result<ExplainReport, ClientError> {
        let ms = |time: Nanos| time.as_nanos() / 1_000_000;
        let mut route = format!("/v1/explain?over_ms={}", ms(over));
        if ms(look) > 0 {
            route.push_str(&format!("&look_ms={}", ms(look)));
        }
        for (word, value) in [("group", group), ("device", device)] {
            if let Some(value) = value {
                route.push_str(&format!("&{word}={}", encode(value)));
            }
        }
        self.get(&route)
    }

    /// What everything does, as it happens, behind the message with this id.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn live_stream(&self, last: Option<&str>) -> Result<LiveStream, ClientError> {
        LiveStream::open(self, last)
    }

    /// The same, which comes back to the daemon whenever it was lost.
    pub fn follow(&self) -> Follow {
        Follow { client: self.clone(), stream: None, last: None, wait: Duration::ZERO }
    }
}

/// A message of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveMessage {
    /// What everything did in an interval.
    Report(Box<LiveReport>),
    /// Something happened.
    Event(EventReport),
}

/// What everything does, as it happens; blocking.
#[derive(Debug)]
pub struct LiveStream {
    runtime: Runtime,
    body: Incoming,
    parser: Parser,
    /// The socket, for messages.
    path: String,
    last: Option<String>,
}

/// The body of an answer that is read piece by piece.
pub(super) fn opened(
    client: &Client,
    runtime: &Runtime,
    request: Request<Full<Bytes>>,
) -> Result<Incoming, ClientError> {
    let path = client.path.display().to_string();
    let asked = async {
        let (answer, _driver) = client.open(request).await?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer.into_body());
        }
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let error = |error| ClientError::Broken { path: path.clone(), error };
        Err(refusal(&path, status, &body.map_err(error)?.to_bytes()))
    };
    let asked = runtime.block_on(async { tokio::time::timeout(TIMEOUT, asked).await });
    asked.map_err(|_| ClientError::Silent(path.clone()))?
}

impl LiveStream {
    fn open(client: &Client, last: Option<&str>) -> Result<LiveStream, ClientError> {
        let path = client.path.display().to_string();
        let runtime = runtime(&path)?;
        let head: Vec<(&str, &str)> =
            last.map(|last| ("last-event-id", last)).into_iter().collect();
        let request = client.request(Method::GET, "/v1/live/stream", &head, Vec::new());
        let body = opened(client, &runtime, request)?;
        let parser = Parser::new(ANSWER_BYTES_MAX);
        Ok(LiveStream { body, runtime, parser, path, last: last.map(str::to_owned) })
    }

    /// Waits for the next message; the daemon sends something each second.
    ///
    /// # Errors
    /// See [`ClientError`]; nothing more comes from this stream then.
    pub fn next_message(&mut self) -> Result<LiveMessage, ClientError> {
        loop {
            if let Some(message) = self.parser.pop() {
                if let Some(message) = self.understood(message)? {
                    return Ok(message);
                }
                continue;
            }
            let body = &mut self.body;
            let frame =
                self.runtime.block_on(async { tokio::time::timeout(TIMEOUT, body.frame()).await });
            let frame = frame.map_err(|_| ClientError::Silent(self.path.clone()))?;
            let frame = frame.ok_or_else(|| ClientError::Ended(self.path.clone()))?;
            let piece = frame.map_err(|error| self.broken(error))?;
            if let Some(piece) = piece.data_ref() {
                self.parser.push(piece).map_err(|error| self.broken(error))?;
            }
        }
    }

    /// Where to go on after a break.
    pub fn last_id(&self) -> Option<&str> {
        self.last.as_deref()
    }

    fn broken(&self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ClientError {
        ClientError::Broken { path: self.path.clone(), error: error.into() }
    }

    /// What a message says; none for a kind that is not known here.
    fn understood(&mut self, message: Message) -> Result<Option<LiveMessage>, ClientError> {
        fn read<T: DeserializeOwned>(path: &str, data: &[u8]) -> Result<T, ClientError> {
            let garbled = |error: serde_json::Error| error.to_string();
            serde_json::from_slice(data)
                .map_err(|error| ClientError::Garbled(path.into(), garbled(error)))
        }
        let understood = match &*message.event {
            "live" => Some(LiveMessage::Report(read(&self.path, &message.data)?)),
            "event" => Some(LiveMessage::Event(read(&self.path, &message.data)?)),
            _ => None,
        };
        self.last = (!message.id.is_empty()).then_some(message.id);
        Ok(understood)
    }
}

/// What everything does, across restarts of the daemon.
#[derive(Debug)]
pub struct Follow {
    client: Client,
    stream: Option<LiveStream>,
    last: Option<String>,
    /// Before the next try.
    wait: Duration,
}

impl Follow {
    /// Waits for the next message, and comes back to the daemon first if it was lost.
    ///
    /// # Errors
    /// See [`ClientError`]: it was lost, or a try to come back failed. The next call tries again,
    /// after a quarter of a second at first, and after two at most.
    pub fn next_message(&mut self) -> Result<LiveMessage, ClientError> {
        let told = self.attempt();
        match &told {
            Ok(_) => self.wait = Duration::ZERO,
            Err(_) => {
                if let Some(stream) = self.stream.take() {
                    self.last = stream.last_id().map(str::to_owned);
                }
                self.wait = (self.wait * 2).clamp(AGAIN.0, AGAIN.1);
            }
        }
        told
    }

    fn attempt(&mut self) -> Result<LiveMessage, ClientError> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                std::thread::sleep(self.wait);
                none.insert(self.client.live_stream(self.last.as_deref())?)
            }
        };
        stream.next_message()
    }
}
