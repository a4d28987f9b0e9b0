//! The load balancers that are asked about a pod, and when each was silent. Pure.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    fact::{Source, Timed},
    voice::{Voice, gap},
};

/// What is heard of each of them.
#[derive(Clone, Debug, Default)]
pub(super) struct LbVoices {
    voices: BTreeMap<Arc<str>, Ear>,
}

#[derive(Clone, Debug, Default)]
struct Ear {
    voice: Voice,
    /// Whether it has told of the pod, and whether it has answered without.
    lists: bool,
    lacks: bool,
}

impl LbVoices {
    /// One of them answered; `lists`: whether it told of the pod. `since`: when the pod was begun to be watched.
    pub(super) fn answers(&mut self, lb: &Arc<str>, lists: bool, at: i64, since: i64) {
        let ear = self.voices.entry(Arc::clone(lb)).or_default();
        if lists {
            ear.lists = true;
            ear.voice.answers(at, since);
        } else {
            ear.lacks = true;
        }
    }

    /// What those that are asked have not told between two instants, as of now.
    pub(super) fn gaps(&self, asked: &[Arc<str>], from: i64, until: i64, now: i64) -> Vec<Timed> {
        let of = |lb: &Arc<str>| match self.voices.get(lb) {
            Some(ear) if ear.lacks && !ear.lists => {
                vec![gap(now, Source::Lb, 0, "it lists no server of this pod (--lb-server)")]
            }
            Some(ear) => ear.voice.gaps(Source::Lb, from, until, now),
            None => Voice::default().gaps(Source::Lb, from, until, now),
        };
        asked.iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drain::fact::Fact;

    const SECOND: i64 = 1_000_000;

    /// Exercises one that tells, one that does not know the pod, and one that never answers, so that each silence has its cause.
    #[test]
    fn silences() {
        let names: [Arc<str>; 3] = ["a".into(), "b".into(), "c".into()];
        let mut voices = LbVoices::default();
        for second in 10..15 {
            voices.answers(&names[0], true, second * SECOND, 0);
            voices.answers(&names[1], false, second * SECOND, 0);
        }
        let why = |asked: &[Arc<str>], until: i64| -> Vec<String> {
            let gaps = voices.gaps(asked, 9 * SECOND, until * SECOND, 30 * SECOND);
            gaps.into_iter()
                .filter_map(|timed| match timed.fact {
                    Fact::Gap { why, .. } => Some(why),
                    _ => None,
                })
                .collect()
        };
        assert_eq!(why(&names[..1], 15), [""; 0]);
        assert_eq!(why(&names[..1], 21), ["it did not answer while users were connected"]);
        assert_eq!(why(&names, 15), ["it lists no server of this pod (--lb-server)", "it never answered"]);
        assert_eq!(why(&[], 21), [""; 0]);
    }
}
