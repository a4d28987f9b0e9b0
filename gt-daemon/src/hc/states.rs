//! Which states are possible: one when it is known, more when two health codes leave it open.

use std::fmt;

use gt_common::connection::HcState;

/// A set of hc's states, never empty. All of them together mean that nothing is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct States(u8);

impl States {
    /// Nothing is known.
    pub const ANY: Self = Self(0b11111);
    /// The LB is told 200.
    pub const UP: Self = Self(0b00011);
    /// The LB is told 503.
    pub const DOWN: Self = Self(0b11100);
    /// LB and kubelet are told 503.
    pub const ENDED: Self = Self(0b11000);

    /// One state; any for [`HcState::Unknown`].
    #[must_use]
    pub const fn only(state: HcState) -> Self {
        match state {
            HcState::Unknown => Self::ANY,
            HcState::Open => Self(0b00001),
            HcState::Draining => Self(0b00010),
            HcState::Closing => Self(0b00100),
            HcState::Closed => Self(0b01000),
            HcState::Fault => Self(0b10000),
        }
    }

    /// The state, when only one is possible; else [`HcState::Unknown`].
    #[must_use]
    pub fn state(self) -> HcState {
        HcState::ALL
            .into_iter()
            .find(|state| Self::only(*state) == self && self != Self::ANY)
            .unwrap_or(HcState::Unknown)
    }

    /// What the LB is told: `true` for 200, `false` for 503, `None` when both are possible.
    #[must_use]
    pub fn shown_up(self) -> Option<bool> {
        match (self.meets(Self::UP), self.meets(Self::DOWN)) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            _ => None,
        }
    }

    /// The states of either.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all states are among the others.
    #[must_use]
    pub fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Whether hc goes from one of these to one of those without a state between, by the rules of gt-hc, or stays.
    #[must_use]
    pub fn may_be_followed_by(self, next: Self) -> bool {
        let goes = ONWARD.into_iter().any(|(from, to)| self.meets(from) && next.meets(to));
        self.meets(next) || goes || self.meets(REOPENED) && next.meets(Self::only(HcState::Open))
    }

    /// The states possible between one of these, when it was told last, and the turn to `next`: those on the way, in which nobody saw it.
    #[must_use]
    pub fn on_the_way_to(self, next: Self) -> Self {
        let (mut reached, mut leading) = (self, next);
        // In the order of the ways one pass reaches all.
        for (from, to) in ONWARD {
            if reached.meets(from) && !next.meets(to) {
                reached = reached.or(to);
            }
        }
        for (from, to) in ONWARD.into_iter().rev() {
            if leading.meets(to) {
                leading = leading.or(from);
            }
        }
        let between = Self(reached.0 & leading.0);
        // No way leads there, but for being started anew.
        if between.0 == 0 { self.or(next) } else { self.or(between) }
    }

    /// Whether a state is in both.
    #[must_use]
    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// How hc goes on, by the rules of gt-hc.
const ONWARD: [(States, States); 4] = {
    let draining = States::only(HcState::Draining);
    let closing = States::only(HcState::Closing);
    [
        (States::only(HcState::Open), draining),
        (draining, closing),
        (draining, States::only(HcState::Fault)),
        (closing, States::only(HcState::Closed)),
    ]
};

/// Whatever has not closed may be opened again.
const REOPENED: States = States(0b10111);

impl fmt::Debug for States {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let states = HcState::ALL.into_iter().skip(1).filter(|state| self.meets(Self::only(*state)));
        formatter.debug_set().entries(states).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises every pair of states, against the rules as gt-hc's document draws them.
    #[test]
    fn what_follows() {
        use HcState::{Closed, Closing, Draining, Fault, Open};
        let rules = [
            (Open, Draining),
            (Draining, Closing),
            (Draining, Fault),
            (Draining, Open),
            (Closing, Closed),
            (Closing, Open),
            (Fault, Open),
        ];
        let all = [Open, Draining, Closing, Closed, Fault];
        for (from, to) in all.into_iter().flat_map(|from| all.map(|to| (from, to))) {
            let follows = States::only(from).may_be_followed_by(States::only(to));
            assert_eq!(follows, from == to || rules.contains(&(from, to)), "{from:?} {to:?}");
        }
        assert!(States::ANY.may_be_followed_by(States::only(Closed)), "nothing is known");
        assert!(States::UP.may_be_followed_by(States::only(Closing)), "it may have been DRAINING");
    }

    /// Exercises turns that were told without what is between, so that this is what hc may have been, and nothing else.
    #[test]
    fn on_the_way() {
        use HcState::{Closed, Closing, Draining, Fault, Open};
        let set = |states: &[HcState]| {
            let sets = states.iter().map(|state| States::only(*state));
            sets.reduce(States::or).unwrap()
        };
        for (from, to, between) in [
            (Open, Draining, &[Open][..]),
            (Open, Closing, &[Open, Draining]),
            (Open, Fault, &[Open, Draining]),
            (Open, Closed, &[Open, Draining, Closing]),
            (Draining, Closed, &[Draining, Closing]),
            (Closed, Open, &[Closed, Open]),
        ] {
            let told = States::only(from).on_the_way_to(States::only(to));
            assert_eq!(told, set(between), "{from:?} {to:?}");
        }
    }

    /// Exercises each state, so that a set of one is that state, and what the LB is told follows from it.
    #[test]
    fn one_and_many() {
        for state in HcState::ALL {
            assert_eq!(States::only(state).state(), state);
        }
        assert_eq!(States::UP.state(), HcState::Unknown);
        assert_eq!(States::only(HcState::Draining).shown_up(), Some(true));
        assert_eq!(States::only(HcState::Fault).shown_up(), Some(false));
        assert_eq!((States::UP.shown_up(), States::ENDED.shown_up()), (Some(true), Some(false)));
        assert_eq!(States::ANY.shown_up(), None);
        assert!(States::ENDED.is_within(States::DOWN) && !States::DOWN.is_within(States::ENDED));
        assert!(!States::UP.meets(States::DOWN) && States::ENDED.meets(States::DOWN));
    }
}
