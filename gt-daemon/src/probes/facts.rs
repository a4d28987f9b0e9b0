//! What the kernel programs are told of pods: one word each, with two authors.
//!
//! Who follows pods declares protocol and interest, who reads the sidecar its state. The word is written here only, so
//! that neither takes back what the other said.

use std::collections::BTreeMap;

use gt_common::{
    connection::{HcState, PodFacts, Protocol},
    owner::Slot,
};

/// The words as they were written last; of a slot that is not among them, the default.
#[derive(Debug, Default)]
pub(super) struct Facts(BTreeMap<Slot, PodFacts>);

impl Facts {
    /// Protocol, and whether state changes are wanted as events.
    pub(super) fn declare<E>(
        &mut self,
        pod: Slot,
        protocol: Protocol,
        interest: bool,
        write: impl FnOnce(PodFacts) -> Result<(), E>,
    ) -> Result<(), E> {
        let facts = PodFacts { protocol: protocol as u8, interest: u8::from(interest), ..self.now(pod) };
        self.set(pod, facts, write)
    }

    /// The state of its health sidecar.
    pub(super) fn set_hc<E>(
        &mut self,
        pod: Slot,
        state: HcState,
        write: impl FnOnce(PodFacts) -> Result<(), E>,
    ) -> Result<(), E> {
        let facts = PodFacts { hc: state as u8, ..self.now(pod) };
        self.set(pod, facts, write)
    }

    /// Nothing is known of the slot's next owner.
    pub(super) fn reset<E>(
        &mut self,
        pod: Slot,
        write: impl FnOnce(PodFacts) -> Result<(), E>,
    ) -> Result<(), E> {
        write(PodFacts::default())?;
        self.0.remove(&pod);
        Ok(())
    }

    fn now(&self, pod: Slot) -> PodFacts {
        self.0.get(&pod).copied().unwrap_or_default()
    }

    /// What could not be written is not remembered, so that it is written the next time.
    fn set<E>(
        &mut self,
        pod: Slot,
        facts: PodFacts,
        write: impl FnOnce(PodFacts) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.0.get(&pod) != Some(&facts) {
            write(facts)?;
            self.0.insert(pod, facts);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises both authors and a slot's next owner, so that none undoes what the other said and nothing is left.
    #[test]
    fn two_authors() {
        let mut facts = Facts::default();
        let mut kernel = PodFacts::default();
        let mut write = |facts| {
            kernel = facts;
            Ok::<_, ()>(())
        };
        facts.set_hc(3, HcState::Draining, &mut write).unwrap();
        facts.declare(3, Protocol::Http1, true, &mut write).unwrap();
        facts.set_hc(3, HcState::Closing, &mut write).unwrap();
        let expected = PodFacts { hc: 3, protocol: Protocol::Http1 as u8, interest: 1, reserved: 0 };
        assert_eq!(facts.now(3), expected);
        facts.set_hc::<()>(3, HcState::Closing, |_| panic!("nothing is new")).unwrap();
        facts.reset(3, &mut write).unwrap();
        facts.declare(3, Protocol::Tls, false, &mut write).unwrap();
        assert_eq!(kernel, PodFacts { protocol: Protocol::Tls as u8, ..PodFacts::default() });
    }

    /// Exercises a write that fails, so that the next one is made although it says the same.
    #[test]
    fn a_failed_write_is_made_again() {
        let mut facts = Facts::default();
        assert_eq!(facts.set_hc(3, HcState::Open, |_| Err(())), Err(()));
        let mut written = None;
        let write = |facts: PodFacts| {
            written = Some(facts.hc);
            Ok::<_, ()>(())
        };
        facts.set_hc(3, HcState::Open, write).unwrap();
        assert_eq!(written, Some(HcState::Open as u8));
    }
}
