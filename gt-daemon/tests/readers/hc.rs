//! The hc readers of a pod with a log and a port, in a namespace of its own.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use gt_common::connection::HcState;
use gt_daemon::{
    clock::Moment,
    dial::{Address, Dialler, Target},
    hc::{
        log::follower::Follower,
        names::Names,
        observation::{HcObservation, Source},
        reader::{Reader, Settings},
        record::Record,
    },
    poll::Pace,
};
use jiff::Timestamp;
use nix::unistd::geteuid;
use tempfile::TempDir;
use tokio::{sync::mpsc, time::timeout};
use xtask::sandbox::Netns;

use crate::{Case, dial::namespace, on_runtime};

pub fn cases() -> Vec<Case> {
    let no_root = (!geteuid().is_root()).then(|| "not root: namespaces need it".to_owned());
    vec![Case::new("hc::log_and_state_are_one_story", no_root.as_ref(), log_and_state_are_one_story)]
}

const PORT: u16 = 18_180;

/// A scripted hc: state and since when.
type Now = Arc<Mutex<(&'static str, i64)>>;

/// Serves `/state` inside the namespace.
fn serve(netns: &Netns, now: Now) -> Result<()> {
    let listener = netns.enter(|| TcpListener::bind(("127.0.0.1", PORT)))??;
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let now = Arc::clone(&now);
            thread::spawn(move || {
                let mut head = [0; 2048];
                while let Ok(1..) = stream.read(&mut head) {
                    let (state, since_us) = *now.lock().unwrap_or_else(PoisonError::into_inner);
                    let since = Timestamp::from_microsecond(since_us).unwrap_or(Timestamp::UNIX_EPOCH);
                    let body =
                        format!(r#"{{"state":"{state}","since":"{since}","active":null,"reason":null}}"#);
                    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    Ok(())
}

/// Exercises a whole drain of a pod that is read by log and `/state` at once, so that both together tell each
/// transition once, at the log's instant, and polls fill in what the log does not have.
fn log_and_state_are_one_story() -> Result<()> {
    let netns = namespace("gt-hc-story")?;
    let dir = TempDir::new()?;
    let begun = Moment::now().utc_us;
    let now: Now = Arc::new(Mutex::new(("OPEN", begun)));
    serve(&netns, Arc::clone(&now))?;
    fs::write(dir.path().join("0.log"), "")?;
    on_runtime(async {
        let (sender, mut observations) = mpsc::channel(256);
        let follower = Follower::start(Names::default(), sender.clone())?;
        follower.follow("uid".into(), dir.path().to_owned());
        let target = Target {
            pod: "test/hc".into(),
            netns: Some(Arc::new(File::open(netns.path())?)),
            address: Address::default(),
        };
        let settings = Settings { port: PORT, ..Settings::default() };
        let reader = Reader::start("uid".into(), target, Dialler::new()?, settings, sender);
        reader.remote().pace(Pace::Fast);

        let mut record = Record::default();
        let mut expected = vec![(begun, HcState::Open, Source::State)];
        let mut before = "OPEN";
        for (name, state, logged) in [
            ("DRAINING", HcState::Draining, true),
            ("CLOSING", HcState::Closing, false),
            ("CLOSED", HcState::Closed, true),
        ] {
            take(&mut observations, &mut record, expected.len()).await?;
            let at = Moment::now().utc_us;
            *now.lock().unwrap_or_else(PoisonError::into_inner) = (name, at);
            if logged {
                let stamp = Timestamp::from_microsecond(at)?;
                let line = format!("{stamp} stdout F ts={stamp} event=transition from={before} to={name}\n");
                File::options().append(true).open(dir.path().join("0.log"))?.write_all(line.as_bytes())?;
            }
            expected.push((at, state, if logged { Source::Log } else { Source::State }));
            before = name;
        }
        take(&mut observations, &mut record, expected.len()).await?;
        // Whatever comes later says the same again.
        tokio::time::sleep(Duration::from_millis(700)).await;
        while let Ok(told) = observations.try_recv() {
            record.push(told.observation);
        }
        let told: Vec<_> =
            record.changes().iter().map(|change| (change.at_us, change.to.state(), change.source)).collect();
        ensure!(told == expected, "told {told:?}, not {expected:?}");
        ensure!(follower.faults().is_empty() && follower.dropped() == 0 && reader.dropped() == 0);
        Ok(())
    })
}

/// Reads observations until so many changes are known.
async fn take(
    observations: &mut mpsc::Receiver<HcObservation>,
    record: &mut Record,
    changes: usize,
) -> Result<()> {
    let reading = async {
        while record.changes().len() < changes {
            record.push(observations.recv().await.context("the readers ended")?.observation);
        }
        anyhow::Ok(())
    };
    timeout(Duration::from_secs(10), reading)
        .await
        .with_context(|| format!("waiting for change {changes}"))?
}
