//! What the status of a server means. Pure.

use serde::{Deserialize, Serialize};

/// What the LB does with the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Serving {
    /// It sends new requests.
    Up,
    /// It sends no new connections, and leaves those that are there.
    NoNew,
    Down,
}

impl Serving {
    /// What HAProxy's status means; `None` for one that tells nothing.
    ///
    /// | Status | Meaning |
    /// |---|---|
    /// | `UP`, `UP k/n` (checks fail, not yet enough of them) | up |
    /// | `NOLB`, `NOLB k/n`, `DRAIN`, `DRAIN k/n`, `DRAIN (agent)` | no new connections |
    /// | `DOWN`, `DOWN k/n` (checks succeed, not yet enough of them), `DOWN (agent)`, `MAINT`, `MAINT (via b/s)`, `MAINT (resolution)` | down |
    /// | `no check`, anything else | not told |
    #[must_use]
    pub fn of(status: &str) -> Option<Self> {
        match status.trim().split([' ', '(']).next()? {
            "UP" => Some(Self::Up),
            "NOLB" | "DRAIN" => Some(Self::NoNew),
            "DOWN" | "MAINT" => Some(Self::Down),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Exercises each status of HAProxy's, so that one that still serves is never taken for DOWN, nor one that tells nothing.
    #[test]
    fn statuses() {
        let table = [
            (Some(Serving::Up), &["UP", "UP 1/2", "UP 2/3", " UP "][..]),
            (Some(Serving::NoNew), &["NOLB", "NOLB 1/2", "DRAIN", "DRAIN 1/3", "DRAIN (agent)"]),
            (
                Some(Serving::Down),
                &[
                    "DOWN",
                    "DOWN 1/2",
                    "DOWN (agent)",
                    "MAINT",
                    "MAINT (via be/s1)",
                    "MAINT(via)",
                    "MAINT (resolution)",
                ],
            ),
            (None, &["no check", "", "OPEN", "DOWNLOAD", "down", "UPPER", "0", "D", "MAIN"]),
        ];
        for (serving, statuses) in table {
            for status in statuses {
                assert_eq!(Serving::of(status), serving, "{status:?}");
            }
        }
    }

    proptest! {
        /// Exercises statuses that are cut short, so that what is left is the same word or none.
        #[test]
        fn cut_short(status in "(UP|DOWN|MAINT|NOLB|DRAIN|no check)( [1-9]/[1-9]| \\([a-z]{1,9}\\))?", keep in 0_usize..20) {
            let cut = status.get(..keep.min(status.len())).unwrap_or_default();
            let told = Serving::of(cut);
            prop_assert!(told.is_none() || told == Serving::of(&status));
        }
    }
}
