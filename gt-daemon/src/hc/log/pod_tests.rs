use std::{fs::File, io::Write as _};

use gt_common::connection::HcState::{self, Closed, Closing, Draining, Open};
use tempfile::TempDir;

use super::*;

/// A container's log directory with a log that is followed.
struct Scene {
    dir: TempDir,
    log: PodLog,
    second: u32,
}

impl Scene {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let log = PodLog::new(dir.path().to_owned(), Arc::new(Names::default()));
        Self { dir, log, second: 0 }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Appends hc's line about a transition as containerd writes it.
    fn transition(&mut self, name: &str, from: &str, to: &str) {
        let text = format!("event=transition from={from} to={to}");
        self.line(name, &text);
    }

    fn line(&mut self, name: &str, text: &str) {
        self.second += 1;
        let line =
            format!("2026-11-30T07:{:02}:{:02}.5Z stdout F {text}\n", self.second / 60, self.second % 60);
        self.raw(name, &line);
    }

    fn raw(&self, name: &str, text: &str) {
        let mut file = File::options().append(true).create(true).open(self.path(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// Plays rounds until even the directory was read, and gives what they told; `None` for a restart.
    fn told(&mut self) -> Vec<Option<HcState>> {
        let mut out = Vec::new();
        for _ in 0..DIRECTORY_EVERY {
            self.log.round(&mut out).unwrap();
        }
        assert!(out.is_sorted_by_key(|observation| observation.at_us));
        out.iter()
            .map(|observation| match observation.what {
                What::Transition { to, .. } => Some(to),
                _ => None,
            })
            .collect()
    }
}

/// Exercises a log from its first line on, also when it comes after its directory.
#[test]
fn from_the_beginning() {
    let mut scene = Scene::new();
    assert_eq!(scene.told(), []);
    scene.transition("0.log", "OPEN", "DRAINING");
    assert_eq!(scene.told(), [Some(Draining)]);
    scene.line("0.log", "event=health_check code=200");
    scene.transition("0.log", "DRAINING", "CLOSING");
    assert_eq!(scene.told(), [Some(Closing)]);
    assert_eq!(scene.told(), []);
}

/// Exercises a log that was there before, so that its end tells the present and nothing is told twice.
#[test]
fn the_end_of_an_old_log() {
    let mut scene = Scene::new();
    scene.transition("0.log", "OPEN", "DRAINING");
    for _ in 0..3000 {
        scene.line("0.log", "event=health_check path=/health_check.html code=200 peer=10.77.0.1:51000");
    }
    assert!(fs::metadata(scene.path("0.log")).unwrap().len() > TAILS[1]);
    assert_eq!(scene.told(), [Some(Draining)]);
    scene.transition("0.log", "DRAINING", "CLOSING");
    assert_eq!(scene.told(), [Some(Closing)]);
}

/// Exercises many old transitions, so that only the last ones are told.
#[test]
fn few_of_many_old_ones() {
    let mut scene = Scene::new();
    for _ in 0..20 {
        scene.transition("0.log", "OPEN", "DRAINING");
        scene.transition("0.log", "DRAINING", "OPEN");
    }
    let told = scene.told();
    assert_eq!((told.len(), told.last()), (MOST_OLD, Some(&Some(Open))));
}

/// Exercises a log that is renamed and opened anew, with lines written in every order, so that none is lost or
/// told twice.
#[test]
fn rotation() {
    let mut scene = Scene::new();
    scene.line("0.log", "event=listening");
    assert_eq!(scene.told(), []);
    let renamed = "0.log.20261130-071642";
    fs::rename(scene.path("0.log"), scene.path(renamed)).unwrap();
    scene.transition(renamed, "OPEN", "DRAINING");
    assert_eq!(scene.told(), [Some(Draining)]);
    scene.transition(renamed, "DRAINING", "CLOSING");
    scene.transition("0.log", "CLOSING", "CLOSED");
    assert_eq!(scene.told(), [Some(Closing), Some(Closed)]);
    fs::remove_file(scene.path(renamed)).unwrap();
    scene.transition("0.log", "CLOSED", "OPEN");
    assert_eq!(scene.told(), [Some(Open)]);
}

/// Exercises a start just after a rotation, so that the renamed log still tells the present; a compressed one
/// is left alone.
#[test]
fn a_start_after_a_rotation() {
    let mut scene = Scene::new();
    scene.transition("0.log.20261130-071600", "OPEN", "CLOSED");
    scene.transition("0.log.20261130-071642", "OPEN", "DRAINING");
    scene.raw("0.log.20261130-071700.gz", "event=transition from=OPEN to=FAULT\n");
    scene.raw("0.log.20261130-071800.tmp", "event=transition from=OPEN to=FAULT\n");
    scene.line("0.log", "event=health_check code=200");
    assert_eq!(scene.told(), [Some(Draining)]);
}

/// Exercises a container that is started again, twice between two looks, so that the state before it ends there.
#[test]
fn restarts() {
    let mut scene = Scene::new();
    scene.transition("0.log", "OPEN", "DRAINING");
    assert_eq!(scene.told(), [Some(Draining)]);
    scene.raw("0.log", "2026-11-30T07:00:02Z stdout F event=transition from=DRAINING to=CLO");
    scene.line("1.log", "event=listening");
    scene.transition("1.log", "OPEN", "CLOSING");
    scene.transition("2.log", "OPEN", "DRAINING");
    assert_eq!(scene.told(), [None, Some(Closing), None, Some(Draining)]);
    scene.transition("2.log", "DRAINING", "CLOSING");
    assert_eq!(scene.told(), [Some(Closing)]);
    assert_eq!(scene.log.unreadable, 0);
}

/// Exercises a start while an older run's log is there, so that only the present run is told.
#[test]
fn a_start_after_a_restart() {
    let mut scene = Scene::new();
    scene.transition("9.log", "OPEN", "FAULT");
    scene.transition("10.log", "OPEN", "DRAINING");
    assert_eq!(scene.told(), [Some(Draining)]);
}

/// Exercises a link, which is what Docker leaves here, and one that leads nowhere.
#[test]
fn links() {
    let mut scene = Scene::new();
    scene.transition("target", "OPEN", "DRAINING");
    std::os::unix::fs::symlink(scene.path("target"), scene.path("0.log")).unwrap();
    assert_eq!(scene.told(), [Some(Draining)]);
    let broken = Scene::new();
    std::os::unix::fs::symlink("/nonexistent/x", broken.path("0.log")).unwrap();
    let mut log = broken.log;
    let message = log.round(&mut Vec::new()).unwrap_err().to_string();
    assert!(message.contains("0.log") && message.contains("links"), "{message}");
}

/// Exercises lines that cannot be understood, so that they are counted.
#[test]
fn unreadable_lines_are_counted() {
    let mut scene = Scene::new();
    scene.transition("0.log", "OPEN", "NOWHERE");
    scene.raw("0.log", "event=transition from=OPEN to=DRAINING\n");
    assert_eq!(scene.told(), []);
    assert_eq!(scene.log.unreadable, 2);
}

/// Exercises a directory that is not there, so that the message says what to do.
#[test]
fn no_directory() {
    let mut log = PodLog::new("/nonexistent/hc".into(), Arc::new(Names::default()));
    let message = log.round(&mut Vec::new()).unwrap_err().to_string();
    assert!(message.contains("/nonexistent/hc") && message.contains("mount"), "{message}");
}
