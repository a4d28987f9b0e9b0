//! What one server of an LB said last, and what the next look at it tells. Pure.

use std::sync::Arc;

use super::{follow::What, reader::Look, row::Row, word::Serving};

/// A second, which is what HAProxy counts in, microseconds.
const SECOND: i64 = 1_000_000;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Known {
    pub(super) lb: Arc<str>,
    pub(super) status: Option<String>,
    pub(super) serving: Option<Serving>,
    /// When it was last asked and answered that it served, and when that answer was here, UTC microseconds.
    served: Option<(i64, i64)>,
    /// When a word of it was told last.
    told: Option<i64>,
    downtime_s: Option<f64>,
    downs: Option<f64>,
}

/// What may have happened between two looks at which it served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    Nothing,
    /// It was DOWN.
    Down,
    /// Nobody knows: its counts began anew, or do not fit each other.
    Unclear,
}

impl Known {
    /// A word that is brought, with an instant of its own.
    pub(super) fn note(&mut self, status: &str, serving: Option<Serving>) {
        (self.status, self.serving) = (Some(status.to_owned()), serving);
    }

    /// A look at it: what that tells, with instants.
    pub(super) fn look(&mut self, row: &Row, look: &Look) -> Vec<(i64, What)> {
        let (asked, answered) = (look.asked.utc_us, look.answered.utc_us);
        // The old exporter has one number for DOWN and for UP 1/2: the time in DOWN tells.
        let has_grown = self.downtime_s.zip(row.downtime_s).is_some_and(|(before, now)| now > before);
        let serving = row.serving.or_else(|| has_grown.then_some(Serving::Down)).or_else(|| {
            // It stays so until it says another word.
            (self.status.as_ref() == Some(&row.status)).then_some(self.serving).flatten()
        });
        let mut said = Vec::new();
        match self.between(row, serving, asked) {
            Between::Nothing => {}
            Between::Down => {
                let last_up = self.served.map(|(asked, _)| asked);
                // Just before its word that it serves, which says that it came back.
                said.push((answered.saturating_sub(1), What::Down { last_up }));
                (self.status, self.serving) = (None, Some(Serving::Down));
            }
            Between::Unclear => said.extend(self.unknown()),
        }
        if serving.is_none() {
            said.extend(self.unknown());
        }
        if (self.status.as_ref(), self.serving) != (Some(&row.status), serving) {
            said.push((answered, What::Status { status: Some(row.status.clone()), serving }));
            self.told = Some(answered);
        }
        if serving == Some(Serving::Down) && self.serving != Some(Serving::Down) {
            said.extend(self.down(row, look));
        }
        if matches!(serving, Some(Serving::Up | Serving::NoNew)) {
            self.served = Some((asked, answered));
        }
        (self.status, self.serving) = (Some(row.status.clone()), serving);
        (self.downtime_s, self.downs) = (row.downtime_s, row.downs);
        said
    }

    /// That it is not known to serve from when it was last known to; nothing when it was not. What ended since then may have
    /// ended by it.
    pub(super) fn unknown(&mut self) -> Option<(i64, What)> {
        if !self.serves() {
            return None;
        }
        let (served, told) = (self.served.map(|(asked, _)| asked), self.told);
        (self.status, self.serving) = (None, None);
        let ts = served.max(told)?.saturating_add(1);
        self.told = Some(ts);
        Some((ts, What::Status { status: None, serving: None }))
    }

    /// Whether it served when it was last heard of, and that is longer ago than `since`, UTC microseconds.
    pub(super) fn is_unheard(&self, since: i64) -> bool {
        self.serves() && self.served.is_some_and(|(asked, _)| asked < since)
    }

    fn serves(&self) -> bool {
        matches!(self.serving, Some(Serving::Up | Serving::NoNew))
    }

    /// What its counts tell of the time since the last look, when it served then and serves now.
    fn between(&self, row: &Row, serving: Option<Serving>, asked: i64) -> Between {
        let Some((before, answered)) = self.served.filter(|_| self.serves()) else { return Between::Nothing };
        if serving != self.serving {
            return Between::Nothing;
        }
        let seconds = |count: u64| i64::try_from(count).unwrap_or(i64::MAX).saturating_mul(SECOND);
        let since = row.since_s.map(seconds);
        let is_less = self.downs.zip(row.downs).is_some_and(|(before, now)| now < before)
            || self.downtime_s.zip(row.downtime_s).is_some_and(|(before, now)| now < before);
        let is_more = self.downs.zip(row.downs).is_some_and(|(before, now)| now > before)
            || self.downtime_s.zip(row.downtime_s).is_some_and(|(before, now)| now > before);
        // Seconds begun count as whole ones on either side.
        let changed_since = |instant: i64| {
            since.map(|since| since < asked.saturating_sub(instant).saturating_add(2 * SECOND))
        };
        let has_changed = since.is_some_and(|since| since.saturating_add(2 * SECOND) < asked - answered);
        match (is_more, is_less) {
            // Two LBs behind one address tell two counts in turn: then the last change is long ago.
            (true, false) if changed_since(before) == Some(true) => Between::Down,
            (false, false) if !has_changed => Between::Nothing,
            _ => Between::Unclear,
        }
    }

    /// It is DOWN, and was not when it was heard of last.
    fn down(&self, row: &Row, look: &Look) -> Option<(i64, What)> {
        let (asked, answered) = (look.asked.utc_us, look.answered.utc_us);
        if let Some((last_up, _)) = self.served {
            return Some((answered, What::Down { last_up: Some(last_up) }));
        }
        // Down when it was first asked: it tells since when, with an error of a second to either side.
        let since = i64::try_from(row.since_s?).ok()?.checked_mul(SECOND)?;
        let ts = answered.saturating_sub(since.saturating_sub(SECOND).max(0));
        let last_up = asked.saturating_sub(since).saturating_sub(SECOND);
        Some((ts, What::Down { last_up: Some(last_up) }))
    }
}
