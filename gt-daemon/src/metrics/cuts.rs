//! Cuts, as the join has counted them.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};

use super::{
    families,
    traffic::{PodLabels, counter},
    words,
};
use crate::correlate::counted::{Counted, HcLabel};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CutLabels {
    #[prometheus(flatten)]
    pod: PodLabels,
    role: &'static str,
    how: &'static str,
    cause: &'static str,
    hc_state: &'static str,
    evidence: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResetLabels {
    #[prometheus(flatten)]
    pod: PodLabels,
    role: &'static str,
    direction: &'static str,
    hc_state: &'static str,
    evidence: &'static str,
}

/// Only inbound user traffic has requests of users.
const ROLE: &str = "inbound";

fn hc(label: HcLabel) -> &'static str {
    label.map_or("none", |state| words::hc(state as u8))
}

pub(super) fn encode_cuts(counted: &Counted, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let pods: Vec<_> = counted.names().iter().map(|(name, counts)| (PodLabels::from(name), counts)).collect();
    let mut family = families::CUTS.begin(encoder)?;
    for (pod, counts) in &pods {
        for (cut, count) in &counts.cuts {
            let labels = CutLabels {
                pod: pod.clone(),
                role: ROLE,
                how: cut.ending.word(),
                cause: cut.cause.word(),
                hc_state: hc(cut.hc),
                evidence: cut.proof.word(),
            };
            counter(&mut family, &labels, *count)?;
        }
    }
    let mut family = families::CUTS_WITH_RST.begin(encoder)?;
    for (pod, counts) in &pods {
        for (reset, count) in &counts.resets {
            let labels = ResetLabels {
                pod: pod.clone(),
                role: ROLE,
                direction: reset.direction.word(),
                hc_state: hc(reset.hc),
                evidence: reset.proof.word(),
            };
            counter(&mut family, &labels, *count)?;
        }
    }
    Ok(())
}
