//! The words for hc's states: today's, old ones, and those a user adds.

use std::{collections::BTreeMap, str::FromStr};

use gt_common::connection::HcState;

/// Names before hc's states were renamed after a gate. What CLOSED and FAULT were called then is not known: where
/// such logs are read, aliases say it.
const OLD: [(&str, HcState); 2] = [("READY", HcState::Open), ("DRAINED_WAIT_LB", HcState::Closing)];

const TODAY: [(&str, HcState); 5] = [
    ("OPEN", HcState::Open),
    ("DRAINING", HcState::Draining),
    ("CLOSING", HcState::Closing),
    ("CLOSED", HcState::Closed),
    ("FAULT", HcState::Fault),
];

/// Words and what they mean; case does not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(BTreeMap<String, HcState>);

impl Default for Names {
    fn default() -> Self {
        Self(TODAY.into_iter().chain(OLD).map(|(name, state)| (name.to_owned(), state)).collect())
    }
}

impl Names {
    /// The state of that name; `None` for a word nobody explained.
    #[must_use]
    pub fn state(&self, name: &str) -> Option<HcState> {
        self.0.get(name).copied().or_else(|| self.0.get(&name.to_ascii_uppercase()).copied())
    }

    /// With further names.
    #[must_use]
    pub fn with(mut self, aliases: impl IntoIterator<Item = Alias>) -> Self {
        self.0.extend(aliases.into_iter().map(|alias| (alias.name, alias.state)));
        self
    }
}

/// A further name, written `NAME=STATE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    name: String,
    state: HcState,
}

impl FromStr for Alias {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = || TODAY.map(|(name, _)| name).join(", ");
        let (name, state) = text
            .split_once('=')
            .ok_or_else(|| format!("{text:?} has no '=': write NAME=STATE, as in STOPPED=CLOSED"))?;
        let name = name.trim().to_ascii_uppercase();
        if name.is_empty() {
            return Err(format!("{text:?} has no name before '=': write NAME=STATE, as in STOPPED=CLOSED"));
        }
        let state = TODAY
            .into_iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(state.trim()))
            .ok_or_else(|| format!("{state:?} is no state of hc: use one of {}", known()))?
            .1;
        Ok(Self { name, state })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises today's, old and added names, so that no other word is a state.
    #[test]
    fn words() {
        let names = Names::default();
        assert_eq!(names.state("OPEN"), Some(HcState::Open));
        assert_eq!(names.state("open"), Some(HcState::Open));
        assert_eq!(names.state("READY"), Some(HcState::Open));
        assert_eq!(names.state("DRAINED_WAIT_LB"), Some(HcState::Closing));
        assert_eq!(names.state("STOPPED"), None);
        assert_eq!(names.state(""), None);
        let names = names.with(["stopped = closed".parse().unwrap()]);
        assert_eq!(names.state("Stopped"), Some(HcState::Closed));
    }

    /// Exercises wrong aliases, so that each is answered with the right form.
    #[test]
    fn wrong_aliases() {
        for wrong in ["STOPPED", "=CLOSED", "STOPPED=GONE", "STOPPED="] {
            let message = wrong.parse::<Alias>().unwrap_err();
            assert!(message.contains("NAME=STATE") || message.contains("CLOSED"), "{message}");
        }
    }
}
