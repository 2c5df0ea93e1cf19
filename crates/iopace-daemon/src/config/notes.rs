//! What delays the start of a daemon, or is good to know at it.

use crate::printable;
use std::fmt;
use std::sync::Arc;

/// The listener for news at the start of a daemon, beside the log.
#[derive(Clone, Default)]
pub struct Notes(Option<Listener>);

/// Is given a text, and says whether anybody hears it; an empty one only asks for that.
type Listener = Arc<dyn Fn(&str) -> bool + Send + Sync>;

impl Notes {
    /// Those that go to this listener.
    pub fn to(listener: impl Fn(&str) -> bool + Send + Sync + 'static) -> Notes {
        Notes(Some(Arc::new(listener)))
    }

    /// Says something; what begins with `warning: ` is one.
    pub(crate) fn say(&self, text: &str) {
        let text = printable::name(text);
        match text.strip_prefix("warning: ") {
            Some(warning) => tracing::warn!("{warning}"),
            None => tracing::info!("{text}"),
        }
        if let Some(listener) = &self.0 {
            listener(&text);
        }
    }

    /// Whether somebody waits for the start still.
    pub(crate) fn is_heard(&self) -> bool {
        self.0.as_ref().is_none_or(|listener| listener(""))
    }
}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Notes").field(&self.0.is_some()).finish()
    }
}
