//! A gateway that dies.

use anyhow::Result;
use xtask::stage::{lb, wire::End};

use super::{nothing_left, rounds};
use crate::{
    expected::{Cut, Expected, How},
    scene::{BY_HAND, Scene, all_refused},
    suite::Case,
};

pub fn cases(missing: Option<&String>) -> Vec<Case> {
    vec![Case::new("killed::three_wait", missing, three_wait)]
}

/// Exercises SIGKILL with three requests in flight, after which no counter of Envoy's tells of them.
fn three_wait() -> Result<()> {
    let expected = Expected {
        sessions: ("SH--", 3),
        envoy: None,
        ended: 3..=3,
        ends: &[End::FinSent],
        cut: Some(Cut {
            count: 3,
            how: How::AsOnTheWire,
            cause: "killed",
            hc_state: "OPEN",
            evidence: &["socket", "l7"],
        }),
    };
    let play = |scene: &mut Scene| {
        let clients = scene.hold(3)?;
        scene.kill()?;
        all_refused(clients)?;
        scene.restart()
    };
    rounds(&lb::Config::default(), &BY_HAND, &expected, play, nothing_left)
}
