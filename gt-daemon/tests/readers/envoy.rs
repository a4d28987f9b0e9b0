//! The Envoy reader against a real Envoy on loopback.

use std::{fs::File, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use gt_daemon::{
    dial::{Address, Dialler, Limits, Target},
    envoy::{
        form::Form,
        reader::{Endpoint, Reader, Report, Settings},
        sample::Sample,
    },
    poll::Pace,
};
use nix::sys::signal::Signal;
use tokio::{sync::mpsc, time::timeout};

use crate::{
    Case, on_runtime,
    real_envoy::{self, Config, RealEnvoy, SOON},
};

pub fn cases() -> Vec<Case> {
    let missing = real_envoy::missing();
    [
        ("envoy::counts_what_is_in_flight", counts_what_is_in_flight as fn() -> Result<()>),
        ("envoy::counts_what_was_cut", counts_what_was_cut),
        ("envoy::all_forms_agree", all_forms_agree),
        ("envoy::a_restart_begins_an_epoch", a_restart_begins_an_epoch),
        ("envoy::late_stats_are_zero_until_used", late_stats_are_zero_until_used),
        ("envoy::stats_kept_out_are_unknown", stats_kept_out_are_unknown),
        ("envoy::a_drain_shows", a_drain_shows),
        ("envoy::a_hung_one_ends_at_the_limit", a_hung_one_ends_at_the_limit),
    ]
    .into_iter()
    .map(|(name, run)| Case::new(name, missing.as_ref(), run))
    .collect()
}

/// A reader of this Envoy, whose port it finds in the test's own namespace.
pub struct Reading {
    pub reader: Reader,
    reports: mpsc::Receiver<Report>,
}

impl Reading {
    pub fn of(envoy: &RealEnvoy, form: Form) -> Result<Self> {
        let endpoints = vec![Endpoint { port: envoy.admin.port(), form, proxied: false }];
        let limits = Limits { time: Duration::from_secs(1), body: 8 << 20 };
        let settings = Settings { endpoints, limits, ..Settings::default() };
        let netns = Some(Arc::new(File::open("/proc/self/ns/net")?));
        let target = Target { pod: "test/envoy".into(), netns, address: Address::default() };
        let (sender, reports) = mpsc::channel(64);
        Ok(Self { reader: Reader::start("uid".into(), target, Dialler::new()?, settings, sender), reports })
    }

    pub async fn report(&mut self) -> Result<Report> {
        timeout(SOON, self.reports.recv()).await?.context("the reader ended")
    }

    /// Looks again and again until a sample is as wanted.
    async fn until(&mut self, what: &str, wanted: impl Fn(&Sample) -> bool) -> Result<Sample> {
        let looking = async {
            loop {
                if let Ok(sample) = self.report().await?.outcome
                    && wanted(&sample)
                {
                    return Ok(sample);
                }
                self.reader.remote().alarm();
            }
        };
        let last = || format!("waiting for {what}");
        timeout(SOON, looking).await.with_context(last)?
    }
}

fn is_active(sample: &Sample, downstream: u64, upstream: u64) -> bool {
    let gauges = &sample.gauges.values;
    (gauges.downstream_rq_active, gauges.upstream_rq_active) == (Some(downstream), Some(upstream))
}

/// Exercises requests in flight, so that each is counted once on both sides, and the question itself is not.
fn counts_what_is_in_flight() -> Result<()> {
    let envoy = RealEnvoy::start(Config::default())?;
    on_runtime(async {
        let mut reading = Reading::of(&envoy, Form::Text)?;
        let first = reading.until("rest", |sample| is_active(sample, 0, 0)).await?;
        ensure!(first.drains() == Some(false) && first.gauges.values.uptime_seconds.is_some(), "{first:?}");
        let held = [envoy.hold()?, envoy.hold()?];
        reading.until("two requests", |sample| is_active(sample, 2, 2)).await?;
        drop(held);
        let last = reading.until("rest", |sample| is_active(sample, 0, 0)).await?;
        ensure!(last.epoch == first.epoch, "{last:?}");
        Ok(())
    })
}

/// Exercises a connection that its peer ends during a request and one that it ends after, so that the counters
/// between two samples say how many were cut.
fn counts_what_was_cut() -> Result<()> {
    let envoy = RealEnvoy::start(Config::default())?;
    envoy.request()?;
    on_runtime(async {
        let mut reading = Reading::of(&envoy, Form::Text)?;
        reading.reader.remote().pace(Pace::Fast);
        let held = envoy.hold()?;
        reading.until("a request", |sample| is_active(sample, 1, 1)).await?;
        reading.reader.remote().alarm();
        let before = reading.until("counters", |sample| sample.counters.is_some()).await?;
        let before = before.counters.context("counters")?;
        drop(held);
        envoy.request()?;
        let wanted = |sample: &Sample| is_active(sample, 0, 0) && sample.counters.is_some();
        let after = reading.until("the end of the request", wanted).await?.counters.context("counters")?;
        let since = after.values.since(&before.values);
        ensure!(since.downstream_cx_destroy_remote_active_rq == Some(1), "{since:?}");
        ensure!(
            since.downstream_rq_rx_reset == Some(1) && since.downstream_rq_tx_reset == Some(0),
            "{since:?}"
        );
        ensure!(since.downstream_cx_destroy_local_active_rq == Some(0), "{since:?}");
        ensure!(since.upstream_cx_destroy_local_with_active_rq == Some(1), "{since:?}");
        ensure!(since.downstream_rq_total == Some(1) && since.downstream_cx_total == Some(1), "{since:?}");
        Ok(())
    })
}

/// Exercises the three forms on one Envoy, so that they tell the same.
fn all_forms_agree() -> Result<()> {
    let envoy = RealEnvoy::start(Config::default())?;
    envoy.request()?;
    let _held = envoy.hold()?;
    on_runtime(async {
        for form in [Form::Text, Form::Json, Form::Prometheus] {
            let mut reading = Reading::of(&envoy, form)?;
            let sample = reading.until("a request", |sample| is_active(sample, 1, 1)).await?;
            let counters = sample.counters.context("the first look has counters")?.values;
            ensure!(counters.downstream_rq_total == Some(2), "{form:?}: {counters:?}");
            ensure!(counters.downstream_rq_rx_reset == Some(0), "{form:?}: {counters:?}");
            ensure!(sample.gauges.values.live == Some(true), "{form:?}: {sample:?}");
        }
        Ok(())
    })
}

/// Exercises an Envoy that is killed and started again on the same port, so that its counters are not compared with
/// those before.
fn a_restart_begins_an_epoch() -> Result<()> {
    let first = RealEnvoy::start(Config::default())?;
    first.request()?;
    on_runtime(async {
        let mut reading = Reading::of(&first, Form::Text)?;
        reading.reader.remote().pace(Pace::Fast);
        let before = reading.until("rest", |sample| is_active(sample, 0, 0)).await?;
        let admin_port = first.admin.port();
        drop(first);
        while reading.report().await?.outcome.is_ok() {}
        let kept = reading.reader.last().context("the last sample stays")?;
        ensure!(kept.epoch == before.epoch, "{kept:?}");
        let second = RealEnvoy::start(Config { admin_port, ..Config::default() })?;
        let wanted = |sample: &Sample| is_active(sample, 0, 0) && sample.counters.is_some();
        let after = reading.until("rest", wanted).await?;
        let total = after.counters.context("counters")?.values.downstream_rq_total;
        ensure!(after.epoch > before.epoch && total == Some(0), "{after:?}");
        drop(second);
        Ok(())
    })
}

/// Exercises Envoy's late stats, so that no request yet is zero, and the first one counts.
fn late_stats_are_zero_until_used() -> Result<()> {
    let envoy = RealEnvoy::start(Config { late_stats: true, further_clusters: 3, ..Config::default() })?;
    on_runtime(async {
        let mut reading = Reading::of(&envoy, Form::Text)?;
        let first = reading.until("rest", |sample| is_active(sample, 0, 0)).await?;
        ensure!(first.counters.context("counters")?.values.upstream_rq_rx_reset == Some(0));
        let held = envoy.hold()?;
        reading.until("a request", |sample| is_active(sample, 1, 1)).await?;
        drop(held);
        reading.until("rest", |sample| is_active(sample, 0, 0)).await?;
        Ok(())
    })
}

/// Exercises what Istio keeps by default, so that what it leaves out is unknown and never zero.
fn stats_kept_out_are_unknown() -> Result<()> {
    let envoy = RealEnvoy::start(Config { istio_stats: true, ..Config::default() })?;
    envoy.request()?;
    on_runtime(async {
        let mut reading = Reading::of(&envoy, Form::Text)?;
        for _ in 0..3 {
            let sample = reading.report().await?.outcome?;
            let gauges = &sample.gauges.values;
            ensure!(gauges.live == Some(true), "{sample:?}");
            ensure!(gauges.downstream_rq_active.is_none() && gauges.active().is_none(), "{sample:?}");
            let counters = sample.counters.context("counters")?.values;
            ensure!(counters.downstream_rq_rx_reset.is_none(), "{sample:?}");
            ensure!(counters.listener_stopped == Some(0), "{sample:?}");
            reading.reader.remote().alarm();
        }
        Ok(())
    })
}

/// Exercises both ways to drain an Envoy, so that each shows.
fn a_drain_shows() -> Result<()> {
    for command in ["/drain_listeners", "/healthcheck/fail"] {
        let envoy = RealEnvoy::start(Config::default())?;
        on_runtime(async {
            let mut reading = Reading::of(&envoy, Form::Text)?;
            reading.until("no drain", |sample| sample.drains() == Some(false)).await?;
            envoy.command(command)?;
            reading.until(command, |sample| sample.drains() == Some(true)).await?;
            Ok(())
        })?;
    }
    Ok(())
}

/// Exercises an Envoy that is stopped for a while, so that a look ends at its limit and a later one tells again.
fn a_hung_one_ends_at_the_limit() -> Result<()> {
    let envoy = RealEnvoy::start(Config::default())?;
    on_runtime(async {
        let mut reading = Reading::of(&envoy, Form::Text)?;
        reading.reader.remote().pace(Pace::Fast);
        let before = reading.until("rest", |sample| is_active(sample, 0, 0)).await?;
        envoy.signal(Signal::SIGSTOP)?;
        let error = loop {
            if let Err(error) = reading.report().await?.outcome {
                break error.to_string();
            }
        };
        ensure!(error.contains("within 1000 ms") && error.contains("test/envoy"), "{error}");
        envoy.signal(Signal::SIGCONT)?;
        let after = reading.until("rest", |sample| is_active(sample, 0, 0)).await?;
        ensure!(after.gauges.begun > before.gauges.ended, "{after:?}");
        Ok(())
    })
}
