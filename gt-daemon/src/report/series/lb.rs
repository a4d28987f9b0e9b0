//! The load balancer's word on the pod, server by server.

use std::collections::BTreeMap;

use super::{Stretch, silences, stretches};
use crate::drain::fact::{Fact, Serving, Source, Timed};

/// What is known of the load balancer's mind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    Unknown,
    /// Seen, in its own word where there is one.
    Seen(Serving, Option<String>),
    /// It said something that does not tell whether it serves.
    Unclear(String),
    /// Between the last look that found it up and the first that did not.
    Turning,
    /// Down by arithmetic: nobody saw it.
    Predicted,
}

/// One server of a load balancer's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub name: String,
    pub words: Vec<Stretch<Word>>,
}

/// All servers that facts name, in order of their names; none when nobody read a load balancer.
#[must_use]
pub fn servers(facts: &[Timed], span: (i64, i64)) -> Vec<Server> {
    let mut changes: BTreeMap<&str, Vec<(i64, Word)>> = BTreeMap::new();
    for Timed { ts, fact } in facts {
        match fact {
            Fact::LbStatus { server, status, serving } => {
                let word = match (serving, status) {
                    (Some(serving), status) => Word::Seen(*serving, status.clone()),
                    (None, Some(status)) => Word::Unclear(status.clone()),
                    (None, None) => Word::Unknown,
                };
                changes.entry(server).or_default().push((*ts, word));
            }
            Fact::HaproxyBackendDown { server, last_up, predicted } => {
                let words = changes.entry(server).or_default();
                if *predicted {
                    predict(words, *ts);
                } else {
                    turn(words, last_up.unwrap_or(*ts), *ts);
                }
            }
            _ => {}
        }
    }
    let silences = silences(facts, Source::Lb);
    let server = |(name, mut words): (&str, Vec<(i64, Word)>)| {
        words.sort_by_key(|(at, _)| *at);
        let words = stretches(span, &Word::Unknown, &words, &Word::Unknown, &silences);
        Server { name: name.to_owned(), words }
    };
    changes.into_iter().map(server).collect()
}

/// It was seen to be down at an instant, and up last at another.
fn turn(words: &mut Vec<(i64, Word)>, last_up: i64, at: i64) {
    let is_told = |(when, word): &(i64, Word)| *when == at && matches!(word, Word::Seen(Serving::Down, _));
    // What was said in between is weaker than what was seen at both ends; the same DOWN may stand there with its word.
    let down = words.iter().rev().find(|told| is_told(told)).cloned();
    words.retain(|(when, _)| *when <= last_up || *when > at);
    if last_up < at {
        words.push((last_up, Word::Turning));
    }
    words.push(down.unwrap_or((at, Word::Seen(Serving::Down, None))));
}

/// Arithmetic speaks where nobody else does.
fn predict(words: &mut Vec<(i64, Word)>, at: i64) {
    let is_seen = words.last().is_some_and(|(_, word)| matches!(word, Word::Seen(..)));
    if !is_seen {
        words.push((at, Word::Predicted));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(ts: i64, status: Option<&str>, serving: Option<Serving>) -> Timed {
        let status = status.map(str::to_owned);
        Timed { ts, fact: Fact::LbStatus { server: "gw/1".to_owned(), status, serving } }
    }

    fn down(ts: i64, last_up: Option<i64>, predicted: bool) -> Timed {
        Timed { ts, fact: Fact::HaproxyBackendDown { server: "gw/1".to_owned(), last_up, predicted } }
    }

    fn told(facts: &[Timed]) -> String {
        let servers = servers(facts, (0, 50));
        let word = |one: &Stretch<Word>| {
            let word = match &one.what {
                Word::Seen(serving, status) => format!("{serving:?}({})", status.as_deref().unwrap_or("")),
                other => format!("{other:?}"),
            };
            format!("{word} {}-{}", one.from, one.to)
        };
        let line = |server: &Server| server.words.iter().map(word).collect::<Vec<_>>().join(", ");
        servers.iter().map(line).collect::<Vec<_>>().join("; ")
    }

    /// Exercises a server that is looked at, with and without a word beside its DOWN, so that the time between two looks is
    /// neither up nor down.
    #[test]
    fn looked_at() {
        let up = status(5, Some("UP"), Some(Serving::Up));
        let counting = status(15, Some("UP 1/2"), Some(Serving::Up));
        let said = status(30, Some("DOWN"), Some(Serving::Down));
        let seen = down(30, Some(25), false);
        for order in [[said.clone(), seen.clone()], [seen.clone(), said]] {
            let facts = [[up.clone(), counting.clone()], order].concat();
            assert_eq!(
                told(&facts),
                "Unknown 0-5, Up(UP) 5-15, Up(UP 1/2) 15-25, Turning 25-30, Down(DOWN) 30-50"
            );
        }
        assert_eq!(told(&[up.clone(), down(30, None, false)]), "Unknown 0-5, Up(UP) 5-30, Down() 30-50");
        let lost =
            Timed { ts: 40, fact: Fact::Gap { source: Source::Lb, length_us: 10, why: String::new() } };
        assert_eq!(told(&[up, lost]), "Unknown 0-5, Up(UP) 5-30, Unknown 30-40, Up(UP) 40-50");
    }

    /// Exercises what nobody saw, so that a prediction is shown as one, and only where there is nothing better.
    #[test]
    fn predicted() {
        assert_eq!(told(&[down(30, None, true)]), "Unknown 0-30, Predicted 30-50");
        let up = status(5, Some("UP"), Some(Serving::Up));
        assert_eq!(told(&[up, down(30, None, true)]), "Unknown 0-5, Up(UP) 5-50");
        assert_eq!(told(&[status(5, Some("no check"), None)]), "Unknown 0-5, Unclear(\"no check\") 5-50");
        assert_eq!(told(&[]), "");
    }
}
