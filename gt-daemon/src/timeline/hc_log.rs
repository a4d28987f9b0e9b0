//! `hc.log`: the health sidecar's log, of one pod or of several, one after the other.

use std::io::{self, BufRead};

use super::{lines, note::Notes};
use crate::hc::{
    log::{
        fields::{self, Fields},
        line::{Line, stamp},
        stamp::Stamp,
    },
    names::Names,
    states::States,
};

/// Transitions and answers of one pod that are kept: more are no drain's.
const MOST: usize = 4_096;

/// Pods in one log.
const MOST_LIVES: usize = 1_024;

/// A line that is this much older than the one before is another pod's, microseconds.
const BACK: i64 = 1_000_000;

/// One pod's part of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Life {
    pub first: i64,
    pub last: i64,
    /// In the order of the log: when, from, to.
    pub changes: Vec<(i64, States, States)>,
    /// Which codes the load balancer was answered, where they changed.
    pub answers: Vec<(i64, u16)>,
    /// When Envoy was told to drain its listeners.
    pub listeners: Option<i64>,
}

impl Life {
    fn takes(&mut self, ts: i64) {
        if self.first == 0 {
            self.first = ts;
        }
        self.last = self.last.max(ts);
    }

    /// Whether the log has the pod's turn from OPEN, and each transition goes on from where the one before it went. With the
    /// codes alone: whether 200 was answered first.
    #[must_use]
    pub fn has_its_turn(&self) -> bool {
        let Some((first, from, to)) = self.changes.first() else {
            return self.answers.first().is_none_or(|(_, code)| *code < 400);
        };
        let goes_on = self.changes.windows(2).all(|pair| match pair {
            [(_, _, before), (_, after, _)] => before.meets(*after),
            _ => true,
        });
        let until = first.saturating_sub(BACK);
        let told_200 = self.answers.iter().any(|(ts, code)| *ts <= *first && *code < 400);
        let told_503 = self.answers.iter().any(|(ts, code)| *ts < until && *code >= 400);
        let is_first = match *from {
            OPEN => !told_503,
            // Of a state without a name of its own, as that before OPEN may be.
            States::ANY => *to == OPEN || (told_200 && !told_503),
            _ => false,
        };
        is_first && goes_on
    }

    fn state(&self) -> States {
        self.changes.last().map_or(States::ANY, |(_, _, to)| *to)
    }
}

/// Reads a log; several pods' parts in the order of the file.
pub fn read(file: impl BufRead, names: &Names, notes: &mut Notes) -> io::Result<Vec<Life>> {
    let mut lives: Vec<Life> = Vec::new();
    lines::each(file, notes, |number, text, notes| {
        let parsed = Line::parse(text.as_bytes(), names);
        let fields = fields::of(text.as_bytes());
        let event = get(&fields, "event");
        let at = stamp(&fields).map(Stamp::utc_us);
        let begins = event == Some("listening");
        let ts = match (at, &parsed) {
            (Some(Some(ts)), _) => ts,
            (None, Line::Other) => return,
            (None, _) => return notes.damaged(Some(number), "tells no time", "have hc log with `ts=`"),
            (Some(None), _) => {
                return notes.damaged(
                    Some(number),
                    "has a time without a time zone",
                    "have hc log in UTC, with a Z",
                );
            }
        };
        let is_another = lives.last().is_none_or(|life| {
            let is_born =
                matches!(&parsed, Line::Transition(told) if told.from == OPEN && ended(life.state()));
            begins || ts.saturating_add(BACK) < life.last || is_born
        });
        if is_another && lives.len() < MOST_LIVES {
            lives.push(Life::default());
        }
        let Some(life) = lives.last_mut() else { return };
        life.takes(ts);
        match parsed {
            Line::Transition(_) if life.changes.len() >= MOST => {
                notes.damaged(Some(number), format!("is beyond the first {MOST} transitions"), "cut the log");
            }
            Line::Transition(told) => life.changes.push((ts, told.from, States::only(told.to))),
            Line::Unreadable => notes.damaged(
                Some(number),
                format!("tells of a state that nobody knows: {}", short(text)),
                "name it by --hc-alias NAME=STATE, as in STOPPED=CLOSED",
            ),
            Line::Other if event == Some("drain_listeners") => life.listeners = life.listeners.or(Some(ts)),
            Line::Other if event == Some("health_check") => {
                let is_lbs = get(&fields, "path").is_none_or(|path| path.contains("health_check"));
                let code = get(&fields, "code").or(get(&fields, "status")).and_then(|code| code.parse().ok());
                if let Some(code) = code.filter(|_| is_lbs)
                    && life.answers.last().is_none_or(|(_, last)| *last != code)
                    && life.answers.len() < MOST
                {
                    life.answers.push((ts, code));
                }
            }
            Line::Other => {}
        }
    })?;
    if lives.is_empty() && notes.is_whole() {
        notes.damaged(None, "has no line of a health sidecar", "look whether it is hc's log");
    }
    Ok(lives)
}

const OPEN: States = States::only(gt_common::connection::HcState::Open);

/// Whether a pod in this state does not come back, unless its sidecar is another one.
fn ended(state: States) -> bool {
    state.is_within(States::ENDED) || state == States::only(gt_common::connection::HcState::Closing)
}

fn get<'a>(fields: &'a Fields, key: &str) -> Option<&'a str> {
    fields.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
}

/// The beginning of a line, for messages.
pub(super) fn short(text: &str) -> String {
    text.chars().take(120).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use gt_common::connection::HcState;
    use proptest::prelude::*;

    use super::*;

    fn lives(text: &str) -> (Vec<Life>, Notes) {
        let mut notes = Notes::on("hc.log");
        let lives = read(text.as_bytes(), &Names::default(), &mut notes).unwrap();
        (lives, notes)
    }

    /// Exercises the logs of two pods in one file, so that they are told apart, also where the second began before the
    /// first had ended.
    #[test]
    fn two_pods() {
        let (lives, notes) = lives(
            "2026-11-30T07:00:01.1Z ts=2026-11-30T07:00:01Z event=listening state=OPEN\n\
             2026-11-30T07:00:09.1Z ts=2026-11-30T07:00:09Z event=transition from=OPEN to=DRAINING\n\
             2026-11-30T07:00:10.1Z ts=2026-11-30T07:00:10Z event=drain_listeners status=200\n\
             ts=2026-11-30T07:00:11Z event=health_check path=/health_check.html code=503\n\
             ts=2026-11-30T07:00:12Z event=health_check path=/health code=200\n\
             ts=2026-11-30T07:00:03Z event=health_check path=/health_check.html code=200\n\
             ts=2026-11-30T07:00:20Z event=transition from=OPEN to=CLOSING\n\
             ts=2026-11-30T07:00:21Z event=transition from=CLOSING to=CLOSED\n",
        );
        assert!(notes.is_whole());
        let told: Vec<_> = lives
            .iter()
            .map(|life| (life.changes.len(), life.answers.len(), life.listeners.is_some()))
            .collect();
        assert_eq!(told, [(1, 1, true), (2, 1, false)]);
        assert_eq!(lives[1].changes[0].2, States::only(HcState::Closing));
    }

    /// Exercises a state nobody knows, a line without a time and one without a zone, so that each is named with its line.
    #[test]
    fn bad_lines() {
        let (lives, notes) = lives(
            "2026-11-30T07:00:01Z event=transition from=OPEN to=LEAVING\nevent=transition from=OPEN to=CLOSED\n\
             2026-11-30T07:00:01 event=transition from=OPEN to=CLOSED\n",
        );
        assert_eq!(lives.len(), 1);
        let told: Vec<_> = notes.list().iter().map(ToString::to_string).collect();
        assert!(
            told[0].starts_with("hc.log, line 1: tells of a state that nobody knows")
                && told[0].contains("--hc-alias")
        );
        assert!(told[1].starts_with("hc.log, line 2: tells no time"));
        assert!(told[2].starts_with("hc.log, line 3: has a time without a time zone"));
    }

    /// Exercises logs that lack lines, so that only those with the turn from OPEN and all that followed are whole.
    #[test]
    fn turns() {
        let has = |lines: &[&str]| {
            let text: String = lines.iter().map(|line| format!("2026-11-30T07:00:{line}\n")).collect();
            lives(&text).0[0].has_its_turn()
        };
        let (ok, turned) = ("01Z event=health_check code=200", "05Z event=health_check code=503");
        let (drains, closes) =
            ("03Z event=transition from=OPEN to=DRAINING", "04Z event=transition from=DRAINING to=CLOSING");
        let closed = "09Z event=transition from=CLOSING to=CLOSED";
        assert!(has(&[ok, drains, closes, turned, closed]) && has(&[drains, closes]) && has(&[ok, turned]));
        assert!(!has(&[ok, closes, turned, closed]) && !has(&[ok, drains, turned, closed]));
        assert!(!has(&[turned, closed]) && !has(&[turned]) && !has(&[ok, turned, closed]));
        assert!(!has(&["01Z event=health_check code=503", drains]));
        assert!(
            !has(&[ok, turned, "09Z event=transition to=CLOSED"])
                && has(&[ok, "03Z event=transition to=CLOSING"])
        );
        assert!(has(&["00Z event=transition from=STARTING to=OPEN", drains]));
    }

    proptest! {
        /// Exercises any text, so that none panics.
        #[test]
        fn any_text(text in "(.{0,60}\n){0,6}", word in "event=transition from=[A-Z]{0,9} to=[A-Z]{0,9}\n") {
            let _whatever = lives(&format!("2026-11-30T07:00:01Z {word}{text}"));
        }
    }
}
