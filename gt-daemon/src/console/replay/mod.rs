//! What was recorded, in place of a daemon: a stream of messages from a file, in its own time or faster.
//!
//! A file holds messages, one a line, as `trace -o json` writes them; or it is the `timeline.jsonl` of a drain's record
//! ([`record`]), or that record's directory. [`pace`] lets time go by.

pub mod pace;
pub mod record;

use std::{
    fs::File,
    io::{BufRead, BufReader, Read as _, stdin},
    path::Path,
    thread,
};

use anyhow::{Context as _, bail};
use tokio::sync::mpsc;

use super::model::Incoming;
use crate::{
    api::message::Message,
    drain::{fact::Timed, store::TIMELINE},
};

/// No message is longer, in bytes.
const LONGEST: u64 = 4 << 20;
/// What can be shown.
const GIVE: &str = "give what `gt-daemon trace -o json` wrote, or a drain's record";
/// So many messages are read ahead.
const AHEAD: usize = 1_024;

/// What a file has, read as it is wanted.
#[derive(Debug)]
pub struct Recorded {
    receiver: mpsc::Receiver<Incoming>,
}

impl Recorded {
    /// Opens a file, a record's directory, or stdin for `-`; the first line is looked at.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let path = if path.is_dir() { path.join(TIMELINE) } else { path.to_owned() };
        let name = path.display().to_string();
        let mut reader: Box<dyn BufRead + Send> = if path == Path::new("-") {
            Box::new(BufReader::new(stdin()))
        } else {
            Box::new(BufReader::new(
                File::open(&path).with_context(|| format!("cannot open {name}; {GIVE}"))?,
            ))
        };
        let Some(first) = line(&mut reader).with_context(|| format!("cannot read {name}; {GIVE}"))? else {
            bail!("{name} is empty: record a stream by `gt-daemon trace -o json`");
        };
        if let Ok(message) = serde_json::from_str::<Message>(&first) {
            return Self::read(name, reader, Some(message));
        }
        match serde_json::from_str::<Timed>(&first) {
            Ok(fact) => Self::record(&path, &name, fact, reader),
            Err(error) => bail!(
                "{name} is neither a stream of messages nor a drain's timeline: its first line is no fact; {GIVE}: {error}"
            ),
        }
    }

    /// Messages, one a line. A line that is none is told in its place.
    fn read(
        name: String,
        mut reader: Box<dyn BufRead + Send>,
        first: Option<Message>,
    ) -> anyhow::Result<Self> {
        let (sender, receiver) = mpsc::channel(AHEAD);
        let read = move || {
            let mut number = 1_u64;
            let mut next = first.map(Incoming::Message);
            // When nobody listens any more there is nothing to be read for.
            while let Some(incoming) = next.take()
                && sender.blocking_send(incoming).is_ok()
            {
                number += 1;
                let why = |error: &dyn std::fmt::Display| Incoming::Note {
                    text: format!("line {number} of {name}: {error}"),
                };
                next = match line(&mut reader) {
                    Ok(None) => None,
                    Ok(Some(text)) => Some(match serde_json::from_str(&text) {
                        Ok(message) => Incoming::Message(message),
                        Err(error) => why(&error),
                    }),
                    Err(error) => {
                        let _nobody = sender.blocking_send(why(&error));
                        None
                    }
                };
            }
        };
        thread::Builder::new().name("replay".to_owned()).spawn(read).context("cannot start a thread")?;
        Ok(Self { receiver })
    }

    /// A drain's record is read whole: it is bounded.
    fn record(
        path: &Path,
        name: &str,
        first: Timed,
        mut reader: Box<dyn BufRead + Send>,
    ) -> anyhow::Result<Self> {
        const MOST: usize = 100_000;

        let mut facts = vec![first];
        while let Some(text) = line(&mut reader).with_context(|| format!("cannot read {name}; {GIVE}"))? {
            let number = facts.len() + 1;
            let fact = serde_json::from_str(&text)
                .with_context(|| format!("line {number} of {name} is no fact; copy the record again"))?;
            if facts.len() >= MOST {
                bail!("{name} has more than {MOST} lines: no record of gt's is that long; {GIVE}");
            }
            facts.push(fact);
        }
        let messages = record::messages(&record::Named::beside(path)?, facts);
        let (sender, receiver) = mpsc::channel(messages.len().max(1));
        for message in messages {
            sender.try_send(Incoming::Message(message)).context("a record's messages")?;
        }
        Ok(Self { receiver })
    }

    /// The next message; `None` at the end.
    pub async fn next(&mut self) -> Option<Incoming> {
        self.receiver.recv().await
    }
}

/// The next line that is not empty, without its end.
fn line(reader: &mut dyn BufRead) -> std::io::Result<Option<String>> {
    loop {
        let mut bytes = Vec::new();
        let read = reader.take(LONGEST).read_until(b'\n', &mut bytes)?;
        if read == 0 {
            return Ok(None);
        }
        if !bytes.trim_ascii().is_empty() {
            return Ok(Some(String::from_utf8_lossy(bytes.trim_ascii()).into_owned()));
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
