//! What the join judged, as facts. Pure.

use super::fact::{End, Fact, Way};
use crate::correlate::{
    judged::{Judged, LateReset},
    torn::{Direction, Id},
};

/// Numbers that every reader of JSON takes for whole.
const WHOLE: u64 = (1 << 53) - 1;

/// The end, and its RST when that is told for the first time.
pub(super) fn facts(judged: &Judged) -> impl Iterator<Item = Fact> {
    let end = end(judged);
    let rst = judged.rst.filter(|_| !judged.again).map(|direction| Fact::TcpRst {
        connection: end.connection,
        direction: way(direction),
        in_flight: end.evidence.is_some(),
    });
    rst.into_iter().chain([Fact::TcpTeardown(end)])
}

/// An RST of a connection that had been judged.
pub(super) fn late_reset(late: &LateReset) -> Fact {
    let LateReset { id, direction, in_flight, .. } = *late;
    Fact::TcpRst { connection: Some(number(id)), direction: way(direction), in_flight }
}

/// Tells connections of one record apart.
fn number(id: Id) -> u64 {
    (id.socket.rotate_left(16) ^ id.since_ns) & WHOLE
}

fn way(direction: Direction) -> Way {
    match direction {
        Direction::Sent => Way::Sent,
        Direction::Received => Way::Received,
    }
}

fn end(judged: &Judged) -> End {
    let known = judged.torn.map(|torn| torn.known);
    let word = |text: String| text.to_ascii_lowercase();
    End {
        connection: judged.torn.map(|torn| number(torn.id)),
        how: judged.ending.word().to_owned(),
        evidence: judged.proof.map(|proof| proof.word().to_owned()),
        cause: judged.cause.word().to_owned(),
        sure: judged.sure,
        count: judged.count,
        phase: known.map(|known| word(format!("{:?}", known.phase))),
        protocol: known.map(|known| word(format!("{:?}", known.protocol))),
        remote: judged.torn.map(|torn| torn.event.remote.to_string()),
    }
}
