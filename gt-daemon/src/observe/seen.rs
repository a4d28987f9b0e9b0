//! The kernel's events as facts, before anybody has judged them. Pure.

use gt_common::connection::{Evidence, How, Lane};

use crate::{
    correlate::{
        cause::Cause,
        torn::{Ending, Id, Proof, Torn},
    },
    drain::{
        end::{connection, kernel_end},
        fact::{End, Fact, Way},
    },
    probes::decode::{Observed, What},
};

/// An end as the kernel saw it: its judgement may come later.
pub(super) fn end(torn: &Torn) -> Fact {
    let how = torn.ending.map_or("pending", Ending::word);
    let evidence = Proof::of(torn.known.evidence).map(Proof::word);
    let cause = Cause::Unknown.word();
    Fact::TcpTeardown(End { sure: false, ..kernel_end(torn, how, evidence, cause) })
}

/// An RST of a connection of a user, or one on a port of users that no connection has; `None` for any other event, and for
/// an RST that is in doubt (see `gt-ebpf/src/rst_received.rs`).
pub(super) fn rst(event: &Observed) -> Option<Fact> {
    let direction = match event.what {
        What::RstSent(_) => Way::Sent,
        What::RstReceived(_) => Way::Received,
        What::Teardown(_) | What::NoRstReceived | What::State(..) => return None,
    };
    let known = event.connection.as_ref();
    let in_doubt = direction == Way::Received
        && known.is_some_and(|known| known.how == How::FinSent && !known.rst_counted);
    if event.lane != Lane::Data || in_doubt {
        return None;
    }
    let in_flight = known.is_some_and(|known| known.evidence != Evidence::None);
    Some(Fact::TcpRst { connection: Id::of(event).map(connection), direction, in_flight })
}
