//! Cuts, counted by what is known of them. Each connection and each stream once, and never taken back.

use std::collections::{BTreeMap, BTreeSet};

use gt_common::connection::HcState;

use super::{
    cause::Cause,
    torn::{Direction, Ending, Proof},
};
use crate::pods::owners::Name;

/// hc's state at a cut; `None` for a pod without hc.
pub type HcLabel = Option<HcState>;

/// What a cut is counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CutLabels {
    pub ending: Ending,
    pub cause: Cause,
    pub hc: HcLabel,
    pub proof: Proof,
}

/// What an RST of a cut connection is counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResetLabels {
    pub direction: Direction,
    pub hc: HcLabel,
    pub proof: Proof,
}

/// The counts of one name: pods of the same name that follow each other share it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub cuts: BTreeMap<CutLabels, u64>,
    pub resets: BTreeMap<ResetLabels, u64>,
}

/// All counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    names: BTreeMap<Name, Counts>,
}

impl Counted {
    /// The names that have counts, each with what may be counted for it at zero: a series that begins at one is no
    /// increase to Prometheus. Counts of other names are forgotten.
    pub fn keep(&mut self, names: &BTreeMap<Name, Knows>) {
        self.names.retain(|name, _| names.contains_key(name));
        for (name, knows) in names {
            let counts = self.names.entry(name.clone()).or_default();
            for labels in knows.cuts() {
                counts.cuts.entry(labels).or_default();
            }
            for labels in knows.resets() {
                counts.resets.entry(labels).or_default();
            }
        }
    }

    /// Counts cuts.
    pub fn cut(&mut self, name: &Name, labels: CutLabels, count: u64) {
        *self.names.entry(name.clone()).or_default().cuts.entry(labels).or_default() += count;
    }

    /// Counts a cut connection that was reset.
    pub fn reset(&mut self, name: &Name, labels: ResetLabels) {
        *self.names.entry(name.clone()).or_default().resets.entry(labels).or_default() += 1;
    }

    /// All counts, in the order of the names.
    #[must_use]
    pub fn names(&self) -> &BTreeMap<Name, Counts> {
        &self.names
    }
}

/// What is known of a pod's cuts decides which can be counted at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Knows {
    pub hc: bool,
    pub envoy: bool,
    /// Whether this is the pod as a whole: what the proxy alone tells is known of no container.
    pub pod: bool,
}

/// While the LB is told 200, and while it is told 503.
const UP: [HcState; 2] = [HcState::Open, HcState::Draining];
const DOWN: [HcState; 3] = [HcState::Closing, HcState::Closed, HcState::Fault];

impl Knows {
    fn proofs(self) -> impl Iterator<Item = Proof> + Clone {
        Proof::ALL.into_iter().filter(move |proof| self.envoy || *proof != Proof::L7)
    }

    fn hc_labels(self) -> Vec<HcLabel> {
        if !self.hc {
            return vec![None];
        }
        UP.into_iter().chain(DOWN).chain([HcState::Unknown]).map(Some).collect()
    }

    /// Causes and states that may stand together.
    fn causes(self, ending: Ending) -> BTreeSet<(Cause, HcLabel)> {
        let with = |cause, states: &[HcState]| {
            states.iter().map(move |state| (cause, Some(*state))).collect::<Vec<_>>()
        };
        match ending {
            Ending::FinReceived | Ending::RstReceived | Ending::StreamReset if self.hc => {
                let mut all = with(Cause::ClientAbort, &UP);
                all.extend(with(Cause::LbFlush, &DOWN));
                all.push((Cause::Unknown, Some(HcState::Unknown)));
                if ending != Ending::StreamReset {
                    // hc told it last, and was silent then.
                    all.extend(with(Cause::Unknown, &UP));
                }
                all.into_iter().collect()
            }
            Ending::FinSent | Ending::RstSent => self
                .hc_labels()
                .into_iter()
                .flat_map(|hc| [(Cause::Killed, hc), (Cause::Proxy, hc)])
                .collect(),
            _ => self.hc_labels().into_iter().map(|hc| (Cause::Unknown, hc)).collect(),
        }
    }

    fn cuts(self) -> Vec<CutLabels> {
        let mut all = Vec::new();
        for ending in Ending::OF_CONNECTIONS {
            for (cause, hc) in self.causes(ending) {
                all.extend(self.proofs().map(|proof| CutLabels { ending, cause, hc, proof }));
            }
        }
        if self.envoy && self.pod {
            for ending in [Ending::StreamReset, Ending::Unseen] {
                for (cause, hc) in self.causes(ending) {
                    all.push(CutLabels { ending, cause, hc, proof: Proof::L7 });
                }
            }
            all.extend(self.hc_labels().into_iter().map(|hc| CutLabels {
                ending: Ending::StreamReset,
                cause: Cause::Proxy,
                hc,
                proof: Proof::L7,
            }));
        }
        all
    }

    fn resets(self) -> Vec<ResetLabels> {
        let mut all = Vec::new();
        for direction in Direction::ALL {
            for hc in self.hc_labels() {
                all.extend(self.proofs().map(|proof| ResetLabels { direction, hc, proof }));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(pod: &str) -> Name {
        Name { namespace: "ns".to_owned(), pod: pod.to_owned(), container: String::new() }
    }

    /// Exercises what may be counted, so that each pod has the series of what is known of it and no others.
    #[test]
    fn series_at_zero() {
        let bare = Knows { pod: true, ..Knows::default() };
        assert_eq!(bare.cuts().len(), (1 + 2 + 1 + 2 + 1) * 2);
        assert!(bare.cuts().iter().all(|cut| cut.hc.is_none() && cut.proof != Proof::L7));
        let whole = Knows { hc: true, envoy: true, pod: true };
        let cuts = whole.cuts();
        assert!(cuts.contains(&CutLabels {
            ending: Ending::StreamReset,
            cause: Cause::LbFlush,
            hc: Some(HcState::Closing),
            proof: Proof::L7
        }));
        assert_eq!(cuts.iter().collect::<BTreeSet<_>>().len(), cuts.len());
        let container = Knows { pod: false, ..whole };
        assert!(container.cuts().iter().all(|cut| cut.ending != Ending::StreamReset));
        assert_eq!(whole.resets().len(), 2 * 6 * 3);
    }

    /// Exercises names that come and go, so that counts live as long as their name, and not longer.
    #[test]
    fn counts_live_as_long_as_the_name() {
        let mut counted = Counted::default();
        let both: BTreeMap<_, _> = [name("a"), name("b")].map(|name| (name, Knows::default())).into();
        counted.keep(&both);
        let labels =
            CutLabels { ending: Ending::FinReceived, cause: Cause::Unknown, hc: None, proof: Proof::Socket };
        counted.cut(&name("a"), labels, 2);
        counted.cut(&name("a"), labels, 1);
        counted.keep(&both);
        assert_eq!(counted.names()[&name("a")].cuts[&labels], 3);
        assert_eq!(counted.names()[&name("b")].cuts[&labels], 0);
        counted.keep(&[(name("b"), Knows::default())].into());
        assert_eq!(counted.names().keys().collect::<Vec<_>>(), [&name("b")]);
    }
}
