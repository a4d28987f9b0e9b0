//! Drains of pods that are scripted, as the observer's loop follows them.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use gt_common::connection::HcState;
use gt_daemon::{
    drain::verdict::Outcome,
    pods::{Deletion, Pod, owners::Followed},
    probes::events::Next,
};

use crate::{
    Case,
    observe::{Observing, followed, gauges, own_namespace, pod, state, teardown},
    on_runtime,
    scripted::Scripted,
};

pub fn cases() -> Vec<Case> {
    vec![Case::new("drains::with_envoy", None, a_drain_with_envoy)]
}

/// Exercises a pod with hc and Envoy from the request for its deletion to its last connection, so that its record has what each
/// source told: requests in flight until they were none, the cut, the sidecar's 503, and no gap.
fn a_drain_with_envoy() -> Result<()> {
    on_runtime(async {
        let (hc, envoy) = (Scripted::start(state("OPEN")).await?, Scripted::start(gauges(1, 1)).await?);
        let observing = Observing::start()?;
        let runs = followed(1, pod("pod", Some(hc.address), Some(envoy.address)), own_namespace()?);
        observing.publish(&[&runs]);
        let name = ("test".to_owned(), "pod".to_owned());
        observing
            .until("OPEN, and Envoy", |observing| {
                let envoy = observing.shown("pod").and_then(|shown| shown.envoy);
                observing.told.of(1) == Some(HcState::Open)
                    && envoy.is_some_and(|envoy| envoy.upstream_rq_active == Some(1))
            })
            .await?;
        ensure!(observing.ledger.ended()[&name].len() == 3 && observing.ledger.started().is_empty());

        let grace = Duration::from_secs(30);
        let requested = std::time::SystemTime::now();
        let deletion = Some(Deletion { deadline: requested + grace, grace });
        let ends = Arc::new(Pod { deletion, ..(*runs.pod).clone() });
        let ends = Arc::new(Followed { pod: ends, ..(*runs).clone() });
        observing.publish(&[&ends]);
        observing.until("the beginning", |observing| observing.ledger.started().contains_key(&name)).await?;
        let begun = observing.ledger.started()[&name];
        ensure!(begun == gt_daemon::clock::utc_us(requested), "{begun} is not the request's instant");
        tokio::time::sleep(Duration::from_millis(500)).await;
        envoy.say(gauges(0, 0));
        hc.say(state("CLOSING"));
        observing.until("CLOSING", |observing| observing.told.of(1) == Some(HcState::Closing)).await?;
        observing.feed.push(Next::Event(teardown(1)));
        observing.feed.push(Next::Drained(u64::MAX));
        tokio::time::sleep(Duration::from_millis(500)).await;
        observing.publish(&[&Arc::new(Followed { gone: true, ..(*ends).clone() })]);
        observing.until("the record", |observing| !observing.ledger.records().is_empty()).await?;

        let records = observing.ledger.records();
        let record = &records[0];
        let told = || format!("{record:?}");
        ensure!(record.outcome() == Outcome::Broken && record.verdict.counts.gaps == 0, told());
        ensure!(record.verdict.counts.by_cause == [("lb_flush".to_owned(), 1)].into(), told());
        ensure!(record.verdict.reasons[0].contains("after it was told 503"), told());
        ensure!(record.intervals.drain_to_active_zero.is_some_and(|zero| zero > 0.4), told());
        ensure!(observing.ledger.ended()[&name][&Outcome::Broken] == 1, told());
        Ok(())
    })
}
