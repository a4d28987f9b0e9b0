//! Cuts, as the join has counted them.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::{
    families,
    traffic::{counter, owner},
    words,
};
use crate::correlate::counted::{Counted, HcLabel};

/// Only inbound user traffic has requests of users.
const ROLE: &str = "inbound";

fn hc(label: HcLabel) -> &'static str {
    label.map_or("none", |state| words::hc(state as u8))
}

pub(super) fn encode_cuts(counted: &Counted, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let mut family = families::CUTS.begin(encoder)?;
    for (name, counts) in counted.names() {
        for (cut, count) in &counts.cuts {
            let labels = [
                ("role", ROLE),
                ("how", cut.ending.word()),
                ("cause", cut.cause.word()),
                ("hc_state", hc(cut.hc)),
                ("evidence", cut.proof.word()),
            ];
            counter(&mut family, &(owner(name), labels), *count)?;
        }
    }
    let mut family = families::CUTS_WITH_RST.begin(encoder)?;
    for (name, counts) in counted.names() {
        for (reset, count) in &counts.resets {
            let labels = [
                ("role", ROLE),
                ("direction", reset.direction.word()),
                ("hc_state", hc(reset.hc)),
                ("evidence", reset.proof.word()),
            ];
            counter(&mut family, &(owner(name), labels), *count)?;
        }
    }
    Ok(())
}
