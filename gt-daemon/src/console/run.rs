//! The console's loop: a stream and keys in, frames out.

use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use crossterm::event::{Event, EventStream};
use futures_util::{Stream, StreamExt as _};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, sleep_until},
};

use super::{
    keys::{self, Wish},
    model::{Incoming, Key, Line, Model, pod::micros},
    screen::{self, Scene, look::Look},
    terminal::Terminal,
    view::View,
};
use crate::{
    api::message::Message,
    clock::utc_us,
    drain::{record::Summary, verdict::Outcome},
};

/// Frames follow each other no faster: what changes in between is in the next one.
const FRAME: Duration = Duration::from_millis(40);
/// Without news the clock goes on.
const TICK: Duration = Duration::from_millis(250);

/// What is to be shown.
#[derive(Clone, Debug)]
pub struct Options {
    pub open: Open,
    /// Whether the console ends with the stream: the last screen does not stay then.
    pub until_over: bool,
    pub look: Look,
}

/// What is shown first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Open {
    /// All pods.
    Table,
    /// One pod.
    Pod(Key),
    /// The first pod that is told of: for a stream that has one alone, whose whole name is the daemon's to know.
    First,
}

/// Why a console ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A person wished it.
    Person,
    /// SIGTERM, SIGINT or SIGHUP.
    Signal(i32),
    /// The stream is over, and that was waited for.
    Over,
}

/// What a console leaves behind.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    pub by: By,
    /// The verdicts on the last drains of the stream's pods, by their names.
    pub verdicts: Vec<Summary>,
}

impl Ended {
    /// The command's exit code: 0 when a person ended it; when the end was waited for that of the worst verdict (0
    /// protected, 2 broken, 3 inconclusive or none at all); 128 and the signal's number.
    #[must_use]
    pub fn code(&self) -> u8 {
        let has = |outcome: Outcome| self.verdicts.iter().any(|summary| summary.verdict == outcome);
        match self.by {
            By::Person => 0,
            By::Signal(signal) => u8::try_from(signal).map_or(u8::MAX, |signal| signal.saturating_add(128)),
            By::Over if has(Outcome::Broken) => Outcome::Broken as u8,
            By::Over if has(Outcome::Inconclusive) || self.verdicts.is_empty() => Outcome::Inconclusive as u8,
            By::Over => Outcome::Protected as u8,
        }
    }

    /// What is left on the terminal: verdicts with their reasons, those that are not protected first.
    #[must_use]
    pub fn words(&self) -> String {
        const MOST: usize = 20;

        let (good, bad): (Vec<_>, Vec<_>) =
            self.verdicts.iter().partition(|summary| summary.verdict == Outcome::Protected);
        let mut text = String::new();
        for Summary { namespace, pod, verdict, reasons, .. } in bad.into_iter().chain(good).take(MOST) {
            text.push_str(&format!("{namespace}/{pod}: {}\n", verdict.word()));
            text.extend(reasons.iter().map(|reason| format!("- {reason}\n")));
        }
        if let Some(more @ 1..) = self.verdicts.len().checked_sub(MOST) {
            text.push_str(&format!("and {more} more drains\n"));
        }
        // A terminal takes what it is told for orders.
        text.retain(|letter| letter == '\n' || !letter.is_control());
        text
    }
}

/// Shows a stream on the terminal of stdout until a person, a signal or the pod's end ends it. The terminal is given back
/// before this returns, and when it panics.
pub async fn run<S>(stream: S, options: Options) -> anyhow::Result<Ended>
where
    S: Stream + Unpin,
    S::Item: Into<Incoming>,
{
    // Before the terminal is taken: a signal in between must not leave it raw.
    let mut signals = Signals::listen()?;
    let mut terminal = Terminal::enter()?;
    let pod = match &options.open {
        Open::Pod(key) => Some(key.clone()),
        Open::Table | Open::First => None,
    };
    let mut shown = Shown { model: Model::default(), view: View::new(pod), ahead: 0, options };
    let by = shown.follow(stream, &mut terminal, &mut signals).await.context("the console's terminal")?;
    Ok(Ended { by, verdicts: shown.verdicts() })
}

/// What is on the screen, and what it is made of.
struct Shown {
    model: Model,
    view: View,
    /// The daemon's clock less this machine's, microseconds.
    ahead: i64,
    options: Options,
}

impl Shown {
    async fn follow<S>(
        &mut self,
        mut stream: S,
        terminal: &mut Terminal,
        signals: &mut Signals,
    ) -> anyhow::Result<By>
    where
        S: Stream + Unpin,
        S::Item: Into<Incoming>,
    {
        let mut keys = EventStream::new();
        let mut frame_at = Instant::now();
        let mut is_new = true;
        loop {
            let next = if is_new { frame_at } else { frame_at + TICK };
            tokio::select! {
                item = stream.next(), if self.model.line() != Line::Over => {
                    match item {
                        Some(item) => self.take(item.into()),
                        None => self.model.over(),
                    }
                    if self.options.until_over && self.model.line() == Line::Over {
                        return Ok(By::Over);
                    }
                    is_new = true;
                }
                event = keys.next() => {
                    match event {
                        None => anyhow::bail!("it gives no more keys"),
                        Some(event) => match self.wish(&event?) {
                            Wish::Nothing => {}
                            Wish::Quit => return Ok(By::Person),
                            Wish::Suspend => terminal.suspend()?,
                            Wish::Redraw => terminal.forget(),
                        },
                    }
                    is_new = true;
                }
                got = signals.next() => {
                    match got {
                        Got::End(signal) => return Ok(By::Signal(signal)),
                        Got::Stop => terminal.suspend()?,
                        Got::Continue => terminal.resume()?,
                    }
                    is_new = true;
                }
                () = sleep_until(next) => {
                    let scene = self.scene();
                    terminal.draw(|area, buffer| screen::draw(scene, area, buffer))?;
                    frame_at = Instant::now() + FRAME;
                    is_new = false;
                }
            }
        }
    }

    fn take(&mut self, incoming: Incoming) {
        if let Incoming::Message(message) = &incoming {
            let told = match message {
                Message::Hello { now, .. } => micros(now),
                Message::Pod(status) => micros(&status.now),
                _ => None,
            };
            if let Some(told) = told {
                self.ahead = told.saturating_sub(utc_us(SystemTime::now()));
            }
        }
        let now = self.now();
        self.model.apply(incoming, now);
        if self.options.open == Open::First && self.model.pods().next().is_some() {
            self.view.open(&self.model);
            self.options.open = Open::Table;
        }
    }

    fn wish(&mut self, event: &Event) -> Wish {
        let Event::Key(key) = event else { return Wish::Nothing };
        let (now, window) = (self.scene().at(), self.scene().window());
        keys::press(&mut self.view, &self.model, *key, now, window)
    }

    /// The daemon's clock, as well as is known.
    fn now(&self) -> i64 {
        utc_us(SystemTime::now()).saturating_add(self.ahead)
    }

    fn scene(&self) -> Scene<'_> {
        Scene { view: &self.view, live: &self.model, now: self.now(), look: self.options.look }
    }

    fn verdicts(&self) -> Vec<Summary> {
        self.model.pods().filter_map(|(_, pod)| pod.last_verdict().cloned()).collect()
    }
}

/// What the process is told from outside.
enum Got {
    End(i32),
    Stop,
    Continue,
}

struct Signals {
    term: Signal,
    int: Signal,
    hup: Signal,
    stop: Signal,
    go_on: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let on = |kind: SignalKind| signal(kind).context("cannot listen to signals");
        let raw = |signal: nix::sys::signal::Signal| SignalKind::from_raw(signal as i32);
        Ok(Self {
            term: on(SignalKind::terminate())?,
            int: on(SignalKind::interrupt())?,
            hup: on(SignalKind::hangup())?,
            stop: on(raw(nix::sys::signal::Signal::SIGTSTP))?,
            go_on: on(raw(nix::sys::signal::Signal::SIGCONT))?,
        })
    }

    async fn next(&mut self) -> Got {
        tokio::select! {
            _ = self.term.recv() => Got::End(SignalKind::terminate().as_raw_value()),
            _ = self.int.recv() => Got::End(SignalKind::interrupt().as_raw_value()),
            _ = self.hup.recv() => Got::End(SignalKind::hangup().as_raw_value()),
            _ = self.stop.recv() => Got::Stop,
            _ = self.go_on.recv() => Got::Continue,
        }
    }
}
