//! What was so from when to when: the facts of a drain as stretches of time. Pure, and without places on a page.
//!
//! Owns: where something was not known. Refuses: to take silence for an answer.

pub mod flight;
pub mod hc;
pub mod lb;
pub mod life;

use super::super::drain::fact::{Fact, Source, Timed};

/// Something that was so for a while; instants are UTC microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch<T> {
    pub from: i64,
    pub to: i64,
    pub what: T,
}

/// What was so between two instants: `first` until the first change, and `unknown` where a silence covers it.
/// Changes and silences are in order of time; silences may overlap.
pub fn stretches<T: Clone + PartialEq>(
    (from, to): (i64, i64),
    first: &T,
    changes: &[(i64, T)],
    unknown: &T,
    silences: &[(i64, i64)],
) -> Vec<Stretch<T>> {
    let mut all = Vec::new();
    let mut silences = joined(silences).into_iter().peekable();
    let starts = std::iter::once((from, first)).chain(changes.iter().map(|(at, what)| (*at, what)));
    let mut starts = starts.peekable();
    while let Some((start, what)) = starts.next() {
        let end = starts.peek().map_or(to, |(next, _)| *next).clamp(from, to);
        let mut start = start.clamp(from, to);
        while let Some((silent, heard)) = silences.peek().copied() {
            if heard <= start {
                silences.next();
                continue;
            }
            if silent >= end {
                break;
            }
            push(&mut all, start, silent.max(start), what);
            push(&mut all, silent.max(start), heard.min(end), unknown);
            start = heard.min(end);
            if heard > end {
                break;
            }
        }
        push(&mut all, start, end, what);
    }
    all
}

/// Adds a stretch, or makes the last one longer.
fn push<T: Clone + PartialEq>(all: &mut Vec<Stretch<T>>, from: i64, to: i64, what: &T) {
    if from >= to {
        return;
    }
    match all.last_mut() {
        Some(last) if last.what == *what && last.to == from => last.to = to,
        _ => all.push(Stretch { from, to, what: what.clone() }),
    }
}

/// When a source was silent, in order of its beginning; an instant is none.
#[must_use]
pub fn silences(facts: &[Timed], of: Source) -> Vec<(i64, i64)> {
    let silence = |timed: &Timed| match &timed.fact {
        Fact::Gap { source, length_us, .. } if *source == of && *length_us > 0 => {
            Some((timed.ts.saturating_sub(*length_us), timed.ts))
        }
        _ => None,
    };
    let mut silences: Vec<(i64, i64)> = facts.iter().filter_map(silence).collect();
    silences.sort_unstable();
    silences
}

/// Silences of which none touches another.
fn joined(silences: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let mut all: Vec<(i64, i64)> = Vec::new();
    for (from, to) in silences {
        match all.last_mut() {
            Some(last) if last.1 >= *from => last.1 = last.1.max(*to),
            _ => all.push((*from, *to)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(silences: &[(i64, i64)]) -> String {
        let changes = [(10, 'b'), (20, 'c'), (20, 'd'), (40, 'd')];
        let all = stretches((0, 50), &'a', &changes, &'?', silences);
        all.iter().map(|Stretch { from, to, what }| format!("{what}{from}-{to} ")).collect()
    }

    /// Exercises silences within a stretch, over several and over all, so that nothing is told of what was not seen.
    #[test]
    fn silence_covers() {
        assert_eq!(told(&[]), "a0-10 b10-20 d20-50 ");
        assert_eq!(told(&[(2, 5)]), "a0-2 ?2-5 a5-10 b10-20 d20-50 ");
        assert_eq!(told(&[(5, 25), (20, 30)]), "a0-5 ?5-30 d30-50 ");
        assert_eq!(told(&[(-5, 90)]), "?0-50 ");
        assert_eq!(told(&[(48, 60), (60, 70)]), "a0-10 b10-20 d20-48 ?48-50 ");
    }

    proptest! {
        /// Exercises any changes and silences, so that the stretches fill the time, and are unknown exactly where a silence is.
        #[test]
        fn any(
            mut changes in prop::collection::vec((-5_i64..60, 0_u8..3), 0..8),
            mut silences in prop::collection::vec((-5_i64..60, 1_i64..20), 0..5),
        ) {
            changes.sort_unstable();
            silences.sort_unstable();
            let silences: Vec<_> = silences.into_iter().map(|(from, length)| (from, from + length)).collect();
            let all = stretches((0, 50), &9, &changes, &7, &silences);
            prop_assert_eq!(all.first().map(|first| first.from), Some(0));
            prop_assert_eq!(all.last().map(|last| last.to), Some(50));
            prop_assert!(all.windows(2).all(|pair| pair[0].to == pair[1].from && pair[0].what != pair[1].what));
            for at in 0..50 {
                let is_silent = silences.iter().any(|(from, to)| (*from..*to).contains(&at));
                let last = changes.iter().rev().find(|(change, _)| *change <= at).map_or(9, |(_, what)| *what);
                let told = all.iter().find(|one| (one.from..one.to).contains(&at)).unwrap().what;
                prop_assert_eq!(told, if is_silent { 7 } else { last }, "at {}", at);
            }
        }
    }
}
