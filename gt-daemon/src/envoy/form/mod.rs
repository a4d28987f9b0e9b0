//! The three forms of Envoy's answers, each read row by row: text, JSON, Prometheus' text.
//!
//! What is none of them, or is cut off, is an error as a whole: half an answer must not pass for a count.

mod json;
mod prometheus;
mod text;

use super::stat::Stat;

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `/stats`: `name: value` a line.
    Text,
    /// `/stats?format=json`: `{"stats": [{"name": .., "value": ..}, ..]}`.
    Json,
    /// `/stats/prometheus`, of Envoy's admin server, of Istio's 15090 or 15020.
    Prometheus,
}

/// Why an answer cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is no list of Envoy's stats: {0}; is this Envoy's port?")]
pub struct Malformed(String);

impl Malformed {
    fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// For a value of one stat.
    fn value(name: &str, value: &str) -> Self {
        Self(format!("{} has the value {:?}", short(name), short(value)))
    }
}

/// The beginning of something, for messages.
fn short(text: &str) -> &str {
    let end = text.char_indices().nth(80).map_or(text.len(), |(index, _)| index);
    text.get(..end).unwrap_or_default()
}

impl Form {
    /// Calls `row` with stat, scope and value of each row gt knows; rows of other stats are passed over.
    pub fn read(self, body: &[u8], row: impl FnMut(Stat, &str, u64)) -> Result<(), Malformed> {
        let body = std::str::from_utf8(body).map_err(|_| Malformed::new("it is not UTF-8"))?;
        match self {
            Self::Text => text::read(body, row),
            Self::Json => json::read(body, row),
            Self::Prometheus => prometheus::read(body, row),
        }
    }
}

/// Every line of a whole answer ends with a newline.
fn refuse_cut(body: &str) -> Result<(), Malformed> {
    if body.is_empty() || body.ends_with('\n') {
        return Ok(());
    }
    Err(Malformed::new("its last line is cut off"))
}

#[cfg(test)]
#[path = "../form_tests.rs"]
mod tests;
