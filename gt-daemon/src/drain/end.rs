//! What the join judged, as facts. Pure.

use super::fact::{End, Fact, Way};
use crate::correlate::{
    judged::{Judged, LateReset},
    torn::{Direction, Id, Proof, Torn},
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
    Fact::TcpRst { connection: Some(connection(id)), direction: way(direction), in_flight }
}

fn way(direction: Direction) -> Way {
    match direction {
        Direction::Sent => Way::Sent,
        Direction::Received => Way::Received,
    }
}

fn end(judged: &Judged) -> End {
    let (how, cause) = (judged.ending.word(), judged.cause.word());
    let evidence = judged.proof.map(Proof::word);
    let told = match &judged.torn {
        Some(torn) => kernel_end(torn, how, evidence, cause),
        None => End::new(how, evidence, cause),
    };
    End { sure: judged.sure, count: judged.count, ..told }
}

/// An end of which the kernel told, in these words.
pub(crate) fn kernel_end(torn: &Torn, how: &str, evidence: Option<&str>, cause: &str) -> End {
    let word = |text: String| text.to_ascii_lowercase();
    End {
        connection: Some(connection(torn.id)),
        phase: Some(word(format!("{:?}", torn.known.phase))),
        protocol: Some(word(format!("{:?}", torn.known.protocol))),
        remote: Some(torn.event.remote.to_string()),
        ..End::new(how, evidence, cause)
    }
}

/// A number that tells a connection apart from the others.
pub(crate) fn connection(id: Id) -> u64 {
    (id.socket.rotate_left(16) ^ id.since_ns) & WHOLE
}
