//! What was not seen of a pod's drain. Pure.

use gt_common::connection::HcState;

use super::{Pod, SLACK};
use crate::{
    drain::{
        fact::{Fact, Hc, Source, Timed},
        follow::Rules,
        voice::gap,
    },
    hc::{merge::Change, states::States},
};

impl Pod {
    /// What was not seen of a drain.
    pub(super) fn gaps(&self, begun: i64, now: i64, rules: &Rules) -> Vec<Timed> {
        let mut gaps = Vec::new();
        let mut late = |from: i64, to: i64, why| {
            if to > from.saturating_add(SLACK) {
                gaps.push(gap(to, Source::Pods, to.saturating_sub(from), why));
            }
        };
        late(begun, self.since, "gt did not watch it yet");
        match self.attributed {
            Some(attributed) => {
                late(begun.max(self.since), attributed, "nothing in the kernel led to its sockets yet");
            }
            None => gaps.push(gap(now, Source::Pods, 0, "nothing in the kernel led to its sockets")),
        }
        gaps.extend(
            self.changes
                .iter()
                .filter(|change| change.at_us == begun)
                .find_map(unseen_turn)
                .map(|why| gap(begun, Source::Hc, 0, why)),
        );
        gaps.extend(self.interrupted.iter().map(|interrupted| gap(begun, Source::Pods, 0, &interrupted.why)));
        let until = self.users_until(begun, now);
        if self.view.has_hc && !self.has_closed() {
            gaps.extend(self.hc_voice.gaps(Source::Hc, begun, until, now));
        }
        if self.view.has_envoy {
            gaps.extend(self.envoy_voice.gaps(Source::Envoy, begun, until, now));
        }
        gaps.extend(self.lb_voices.gaps(&rules.lbs, begun, until, now));
        gaps
    }

    /// Until when users may have been connected: before connections were counted nobody knows.
    fn users_until(&self, begun: i64, now: i64) -> i64 {
        let Some(counted) = self.counted else { return now };
        counted.connected.unwrap_or(begun).max(counted.first).max(begun)
    }

    /// Whether hc has said its last word.
    fn has_closed(&self) -> bool {
        let is_closed = |timed: Timed| matches!(timed.fact, Fact::HcState { to: Some(Hc::Closed), .. });
        self.hc_facts().any(is_closed)
    }
}

/// Why hc's first sign of a drain does not tell when the drain began: hc had left OPEN before, and what was cut since then is
/// not in the drain. `None` when it came from OPEN, or may have.
fn unseen_turn(change: &Change) -> Option<&'static str> {
    let is_known = change.from != States::ANY;
    if is_known && !change.from.meets(States::only(HcState::Open)) {
        return Some("its turn from OPEN was not told");
    }
    // Before DRAINING there is only OPEN; anything later has something between.
    match (is_known, change.found) {
        (true, _) => None,
        (false, true) if change.to.shown_up() == Some(false) => {
            Some("it told 503 already when it was first asked")
        }
        (false, true) => Some("it was past OPEN already when it was first asked"),
        (false, false) => {
            (change.to != States::only(HcState::Draining)).then_some("its turn from OPEN was not told")
        }
    }
}
