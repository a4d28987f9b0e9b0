//! LBs: a real HAProxy by every way, and the observer's loop with it.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, ensure};
use gt_daemon::{
    clock::{Moment, utc_us},
    drain::{
        fact::{Fact, Serving, stamp},
        record::Record,
        verdict::Outcome,
    },
    lb::{
        follow::{What, Words},
        pattern::{Identity, Patterns},
        reader::{Heard, Reader, Settings},
        webhook,
    },
    observe,
    pods::{Deletion, Pod, owners::Followed},
    poll::Meter,
};
use tokio::{net::TcpListener, sync::mpsc};

use crate::{
    Case,
    haproxy::{HaProxy, SERVER},
    observe::{Observing, followed, own_namespace, pod, settings, state},
    on_runtime,
    scripted::Scripted,
};

pub fn cases() -> Vec<Case> {
    [
        ("lb::by_every_way", by_every_way as fn() -> Result<()>),
        ("lb::a_shut_door", a_shut_door),
        ("lb::a_drain", a_drain),
        ("lb::a_word_that_is_brought", a_word_that_is_brought),
    ]
    .into_iter()
    .map(|(name, run)| Case::new(name, None, run))
    .collect()
}

/// Exercises the four ways to ask a HAProxy while its server goes down, so that each tells the same, DOWN lies between two looks
/// after the cause of it, and `UP 1/2` serves.
fn by_every_way() -> Result<()> {
    on_runtime(async {
        let checked = Scripted::start(state("OPEN")).await?;
        let haproxy = HaProxy::start(checked.address)?;
        let (sender, mut heard) = mpsc::channel(256);
        let mut readers = Vec::new();
        for way in haproxy.ways() {
            let source = way.parse().map_err(anyhow::Error::msg)?;
            readers.push(Reader::start(source, &Settings::default(), Meter::default(), sender.clone()));
        }
        let patterns = Patterns {
            servers: vec!["igw/{host}".parse().map_err(anyhow::Error::msg)?],
            node: Some("node-1.x".to_owned()),
            ..Patterns::default()
        };
        let identity = Identity { namespace: "edge", pod: "igw", addresses: &[] };
        let mut words = Words::default();
        let mut said = Vec::new();
        let mut stopped = None;
        let mut checked = Some(checked);
        let begun = tokio::time::Instant::now();
        // Two looks have the same host and another port: four names in all.
        while said.iter().filter(|(_, what)| matches!(what, What::Down { .. })).count() < 4 {
            ensure!(begun.elapsed() < Duration::from_secs(20), "{said:?}");
            let next = tokio::time::timeout(Duration::from_secs(5), heard.recv()).await?;
            let Heard::Look(report) = next.context("no more looks")? else { continue };
            let look = report.outcome.map_err(anyhow::Error::msg)?;
            let rows = patterns.of(&look.rows, identity);
            ensure!(rows.len() == 1 && look.rows.len() == 2, "{:?}", look.rows);
            // The statistics by HTTP and the exporter are one address: the way is in the prefix.
            let has_word = rows[0].since_s.is_some();
            let prefix = format!("{} {has_word} ", report.lb);
            let lb = prefix.as_str().into();
            for one in words.look(&lb, &prefix, &rows, &look) {
                ensure!(one.server.ends_with(SERVER), "{one:?}");
                said.push((one.server, one.what));
            }
            let up = said
                .iter()
                .filter(|(_, what)| matches!(what, What::Status { serving: Some(Serving::Up), .. }));
            if up.count() >= 4 && checked.take().is_some() {
                stopped = Some(Moment::now().utc_us);
            }
        }
        let stopped = stopped.context("the server never stopped")?;
        for (server, what) in &said {
            match what {
                What::Down { last_up } => {
                    let last_up = last_up.context("no bracket")?;
                    ensure!(
                        last_up >= stopped - 1_500_000 && last_up <= Moment::now().utc_us,
                        "{server}: {said:?}"
                    );
                }
                What::Status { status, serving } => {
                    let status = status.as_deref().unwrap_or_default();
                    ensure!(["UP", "UP 1/2", "DOWN"].contains(&status), "{server}: {status}");
                    let is_down = *serving == Some(Serving::Down);
                    ensure!(is_down == (status == "DOWN"), "{server}: {status} is {serving:?}");
                }
            }
        }
        Ok(())
    })
}

/// Exercises statistics that want a password, so that their lack is told, with what to do, and nothing else.
fn a_shut_door() -> Result<()> {
    on_runtime(async {
        let checked = Scripted::start(state("OPEN")).await?;
        let haproxy = HaProxy::start(checked.address)?;
        let (sender, mut heard) = mpsc::channel(16);
        let source = haproxy.shut_door().parse().map_err(anyhow::Error::msg)?;
        let _reader = Reader::start(source, &Settings::default(), Meter::default(), sender);
        let next = tokio::time::timeout(Duration::from_secs(5), heard.recv()).await?;
        let Some(Heard::Look(report)) = next else { anyhow::bail!("{next:?}") };
        let error = report.outcome.err().context("it let us in")?;
        ensure!(error.contains("USER:PASSWORD"), "{error}");
        Ok(())
    })
}

fn with_lb(lb: Settings) -> observe::Settings {
    observe::Settings { lb, ..settings() }
}

fn ending(pod: &Arc<Followed>) -> Arc<Followed> {
    let grace = Duration::from_secs(30);
    let deletion = Some(Deletion { deadline: SystemTime::now() + grace, grace });
    let ends = Arc::new(Pod { deletion, ..(*pod.pod).clone() });
    Arc::new(Followed { pod: ends, ..(**pod).clone() })
}

async fn record(observing: &Observing, pod: &Arc<Followed>) -> Result<Arc<Record>> {
    observing.publish(&[&Arc::new(Followed { gone: true, ..(**pod).clone() })]);
    observing.until("the record", |observing| !observing.ledger.records().is_empty()).await?;
    observing.ledger.records().pop().context("no record")
}

/// Exercises a pod that drains behind a real HAProxy, so that this is asked only then, the record says how it turned away, and the
/// interval that ends there is known.
fn a_drain() -> Result<()> {
    on_runtime(async {
        let checked = Scripted::start(state("OPEN")).await?;
        let (hc, envoy) =
            (Scripted::start(state("OPEN")).await?, Scripted::start(crate::observe::gauges(0, 0)).await?);
        let haproxy = HaProxy::start(checked.address)?;
        let lb = Settings {
            sources: vec![haproxy.ways()[0].parse().map_err(anyhow::Error::msg)?],
            patterns: Patterns { node_address: Some(checked.address.ip()), ..Patterns::default() },
            ..Settings::default()
        };
        let observing = Observing::start_with(with_lb(lb))?;
        let runs = followed(1, pod("pod", Some(hc.address), Some(envoy.address)), own_namespace()?);
        observing.publish(&[&runs]);
        observing
            .until("Envoy", |observing| {
                observing
                    .shown("pod")
                    .and_then(|shown| shown.envoy)
                    .is_some_and(|envoy| envoy.up == Some(true))
            })
            .await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
        ensure!(observing.board.lb.all_up().is_none(), "asked while nothing drains");

        let ends = ending(&runs);
        let requested = utc_us(SystemTime::now());
        observing.publish(&[&ends]);
        observing.until("UP", |observing| observing.board.lb.serving("pod") == Some(Serving::Up)).await?;
        ensure!(observing.board.lb.all_up() == Some(true));
        tokio::time::sleep(Duration::from_millis(300)).await;
        hc.say(state("CLOSING"));
        drop(checked);
        observing.until("DOWN", |observing| observing.board.lb.serving("pod") == Some(Serving::Down)).await?;
        let seen = utc_us(SystemTime::now());
        let record = record(&observing, &ends).await?;
        observing.until("quiet", |observing| observing.board.lb.all_up().is_none()).await?;

        let told = || format!("{record:?}");
        let downs: Vec<_> = record
            .facts
            .iter()
            .filter_map(|timed| match &timed.fact {
                Fact::HaproxyBackendDown { server, last_up, predicted: false } => {
                    Some((timed.ts, server.as_str(), *last_up))
                }
                _ => None,
            })
            .collect();
        let [(ts, server, Some(last_up))] = downs[..] else { anyhow::bail!("{downs:?}: {}", told()) };
        ensure!(server == SERVER && last_up < ts && ts <= seen && last_up >= requested, told());
        ensure!(ts - last_up < 2_000_000, "a bracket of {} us", ts - last_up);
        let lb_down = record.intervals.active_zero_to_lb_down.context("no interval")?;
        ensure!(lb_down > 0.3 && lb_down < 10.0, told());
        ensure!(record.outcome() == Outcome::Protected && record.verdict.counts.gaps == 0, told());
        let reasons = record.verdict.reasons.join("\n");
        ensure!(reasons.contains("the load balancer (igw/node-1) marked the pod DOWN"), reasons);
        Ok(())
    })
}

/// Exercises a word that an LB brings by HTTP, so that it is noted with the LB's own instant for the pod it is about, and refused
/// where it is about none or tells nothing.
fn a_word_that_is_brought() -> Result<()> {
    on_runtime(async {
        let hc = Scripted::start(state("OPEN")).await?;
        let patterns = Patterns {
            servers: vec!["igw/{pod}".parse().map_err(anyhow::Error::msg)?],
            ..Patterns::default()
        };
        let observing = Observing::start_with(with_lb(Settings { patterns, ..Settings::default() }))?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let server = axum::serve(listener, webhook::router(observing.lb_door.clone()));
        let server = tokio::spawn(async move { server.await });
        let runs = followed(1, pod("pod", Some(hc.address), None), own_namespace()?);
        let ends = ending(&runs);
        observing.publish(&[&ends]);
        let name = ("test".to_owned(), "pod".to_owned());
        observing.until("the beginning", |observing| observing.ledger.started().contains_key(&name)).await?;

        let at = utc_us(SystemTime::now());
        let post = async |line: String| -> Result<(u16, String)> {
            let stream = std::net::TcpStream::connect(address)?;
            let reply = tokio::task::spawn_blocking(move || -> Result<_> {
                use std::io::{Read as _, Write as _};
                let mut stream = stream;
                let head = "POST /lb HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
                write!(stream, "{head}Content-Length: {}\r\n\r\n{line}", line.len())?;
                let mut text = String::new();
                stream.read_to_string(&mut text)?;
                Ok(text)
            })
            .await??;
            let status = reply.split(' ').nth(1).context("no status")?.parse()?;
            Ok((status, reply))
        };
        let (status, reply) = post(format!("igw/pod DOWN at {}", stamp(at))).await?;
        ensure!(status == 200 && reply.ends_with("noted for test/pod\n"), reply);
        ensure!(post(format!("igw/other DOWN at {}", stamp(at))).await?.0 == 404);
        ensure!(post("igw/pod DOWN".to_owned()).await?.0 == 400);
        ensure!(post("x".repeat(2_000)).await?.0 == 413);
        // It may have come just before LBs were known to matter.
        observing
            .until("the LB's word", |observing| observing.board.lb.serving("pod") == Some(Serving::Down))
            .await?;
        let record = record(&observing, &ends).await?;
        let down = Fact::HaproxyBackendDown { server: "igw/pod".to_owned(), last_up: None, predicted: false };
        ensure!(record.facts.iter().any(|timed| timed.ts == at && timed.fact == down), "{record:?}");
        server.abort();
        Ok(())
    })
}
