//! The order in which things are learned.

use proptest::prelude::*;

use super::*;

proptest! {
    /// Exercises what is learned of a drain in any order, so that the verdict and its evidence are the same.
    #[test]
    fn order_does_not_matter(
        order in Just((0..9_usize).collect::<Vec<_>>()).prop_shuffle(),
        sure in any::<bool>(),
        proof in prop_oneof![Just(None), Just(Some(Proof::Possible)), Just(Some(Proof::L7))],
    ) {
        let sure = match proof {
            Some(proof) => proof != Proof::Possible,
            None => sure,
        };
        let told = |order: &[usize]| {
            let view = View { has_envoy: false, ..view() };
            let mut drains = Drains::new(300 * SECOND);
            drains.pods(std::slice::from_ref(&view), now(1));
            for second in 1..10 {
                drains.hc("u", vec![], true, now(second));
            }
            let changes = [
                change(11, HcState::Open, HcState::Draining),
                change(13, HcState::Draining, HcState::Closing),
                change(15, HcState::Closing, HcState::Closed),
            ];
            let mut known = Vec::new();
            for step in order {
                match step {
                    0 => _ = drains.pods(&[View { deletion: Some((10 * SECOND, 30)), ..view.clone() }], now(16)),
                    1..=3 => {
                        known.push(changes[step - 1].clone());
                        known.sort_by_key(|change: &Change| change.at_us);
                        drains.hc("u", known.clone(), true, now(16));
                    }
                    4 => drains.judged(&judged(14, sure, proof), now(16)),
                    5 => drains.judged(&judged(12, true, None), now(16)),
                    6 => drains.judged(&judged(9, true, Some(Proof::L7)), now(16)),
                    7 => drains.connections("u", 1, 0, now(16)),
                    _ => _ = drains.tick(now(16)),
                }
            }
            drains.pods(&[View { deletion: Some((10 * SECOND, 30)), gone: true, ..view }], now(17));
            drains.connections("u", 0, 0, now(17));
            drains.tick(now(17));
            drains.tick(now(24)).pop()
        };
        let in_order: Vec<_> = (0..9).collect();
        let (one, other) = (told(&in_order).unwrap(), told(&order).unwrap());
        prop_assert_eq!(&one, &other);
        let expected = match proof {
            Some(Proof::L7) => Outcome::Broken,
            _ if sure => Outcome::Protected,
            _ => Outcome::Inconclusive,
        };
        prop_assert_eq!(one.outcome(), expected);
    }
}
