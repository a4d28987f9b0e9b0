//! A transition in one line of hc's log.

use gt_common::connection::HcState;

use super::{fields, fields::Fields, stamp::Stamp};
use crate::hc::{names::Names, states::States};

/// What a line tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// hc's own stamp.
    pub stamp: Option<Stamp>,
    /// Any where the line does not tell.
    pub from: States,
    pub to: HcState,
    pub reason: Option<Box<str>>,
    /// Requests in flight, where the line tells a number.
    pub active: Option<u64>,
}

/// What a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    Transition(Transition),
    /// A transition to a state whose name nobody explained, or cut off before it.
    Unreadable,
    /// Anything else.
    Other,
}

/// The word that makes a line a transition; it is looked for first, since most lines are health checks.
const WORD: &[u8] = b"transition";

/// Where a line has no `event`, one of these may say what it is.
const EVENT: [&str; 3] = ["message", "msg", "type"];
const STAMP: [&str; 6] = ["ts", "time", "timestamp", "@timestamp", "t", "datetime"];
const FROM: [&str; 5] = ["from", "from_state", "old", "old_state", "prev"];
const TO: [&str; 5] = ["to", "to_state", "new", "new_state", "next"];

impl Line {
    /// Reads a whole line, without what the container runtime wrote around it.
    #[must_use]
    pub fn parse(text: &[u8], names: &Names) -> Self {
        if !text.windows(WORD.len()).any(|window| window.eq_ignore_ascii_case(WORD)) {
            return Self::Other;
        }
        let fields = fields::of(text);
        let is_it = |value: &str| value.trim().eq_ignore_ascii_case("transition");
        let is_transition = match get(&fields, &["event"]) {
            Some(event) => is_it(event),
            None => fields.iter().any(|(key, value)| EVENT.contains(&key.as_str()) && is_it(value)),
        };
        if !is_transition {
            return Self::Other;
        }
        let state = |keys: &[&str]| get(&fields, keys).map(|name| names.state(name.trim()));
        let Some(Some(to)) = state(&TO) else { return Self::Unreadable };
        let from = match state(&FROM) {
            Some(Some(from)) => States::only(from),
            // A name that nobody explained is still no reason to doubt where it went.
            Some(None) | None => States::ANY,
        };
        Self::Transition(Transition {
            stamp: stamp(&fields),
            from,
            to,
            reason: get(&fields, &["reason"]).filter(|reason| !reason.is_empty()).map(Into::into),
            active: get(&fields, &["active"]).and_then(|active| active.parse().ok()),
        })
    }
}

/// The first field of one of these names.
fn get<'a>(fields: &'a Fields, keys: &[&str]) -> Option<&'a str> {
    fields.iter().find(|(key, _)| keys.contains(&key.as_str())).map(|(_, value)| value.as_str())
}

/// The stamp of a field, else of the words at the line's beginning: `2026-11-30 07:16:46,981 INFO ..`.
pub(crate) fn stamp(fields: &Fields) -> Option<Stamp> {
    if let Some(stamp) = get(fields, &STAMP).and_then(Stamp::parse) {
        return Some(stamp);
    }
    let words: Vec<_> = fields
        .iter()
        .take_while(|(key, _)| key.is_empty())
        .take(3)
        .map(|(_, word)| word.trim_matches(['[', ']']))
        .collect();
    (1..=words.len()).rev().find_map(|count| Stamp::parse(&words.get(..count)?.join(" ")))
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
