//! A child process whose lines are handed on while it runs, with a wall-clock limit.
//!
//! Owns: the child and the limit. Refuses: to wait for grandchildren that keep the pipe open.

use std::{
    fmt, io,
    io::{BufRead as _, BufReader},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

/// How long output is still awaited after the child has ended: a leaked daemon may hold the pipe.
const AFTER_END: Duration = Duration::from_secs(1);

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exited(ExitStatus),
    /// The limit was reached and the child was killed.
    Limit(Duration),
}

impl End {
    /// Whether the child ended by itself and with success.
    #[must_use]
    pub fn success(self) -> bool {
        matches!(self, Self::Exited(status) if status.success())
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "{status}"),
            Self::Limit(limit) => write!(f, "killed at its limit of {} s", limit.as_secs()),
        }
    }
}

/// Runs `command` without stdin and calls `on_line` for each line of its stdout and stderr, in the
/// order they were written. Takes the command by value since it holds the pipe's write ends.
pub fn stream(mut command: Command, limit: Duration, mut on_line: impl FnMut(&str)) -> Result<End> {
    let name = format!("{command:?}");
    let (reader, writer) = io::pipe().context("cannot make a pipe")?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone().context("cannot duplicate a pipe")?)
        .stderr(writer);
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {name}: `cargo xtask setup` installs what gt needs"))?;
    drop(command);

    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            let text = String::from_utf8_lossy(&line);
            if sender.send(text.trim_end_matches(['\r', '\n']).to_owned()).is_err() {
                break;
            }
            line.clear();
        }
    });

    let deadline = Instant::now() + limit;
    let mut ended: Option<(End, Instant)> = None;
    loop {
        match lines.recv_timeout(Duration::from_millis(50)) {
            Ok(line) => on_line(&line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) if ended.is_none() => thread::sleep(Duration::from_millis(5)),
            Err(RecvTimeoutError::Disconnected) => {}
        }
        match ended {
            None => {
                if let Some(status) = child.try_wait().with_context(|| format!("cannot wait for {name}"))? {
                    ended = Some((End::Exited(status), Instant::now()));
                } else if Instant::now() > deadline {
                    let _gone_already = child.kill();
                    child.wait().with_context(|| format!("cannot wait for {name}"))?;
                    ended = Some((End::Limit(limit), Instant::now()));
                }
            }
            Some((end, since)) => {
                // Whatever was written before the end is in the channel or on its way to it.
                while let Ok(line) = lines.recv_timeout(Duration::from_millis(50)) {
                    on_line(&line);
                    if since.elapsed() > AFTER_END {
                        break;
                    }
                }
                return Ok(end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// Exercises both streams and a carriage return so that a serial console's lines come out clean.
    #[test]
    fn lines_of_both_streams_arrive_in_order() {
        let mut seen = Vec::new();
        let end = stream(
            shell("echo one; echo two >&2; printf 'three\\r\\nfour'; exit 3"),
            Duration::from_secs(10),
            |line| seen.push(line.to_owned()),
        )
        .unwrap();
        assert_eq!(seen, ["one", "two", "three", "four"]);
        assert_eq!(end.to_string(), "exit status: 3");
    }

    /// Exercises the limit so that a hanging guest cannot hang its caller.
    #[test]
    fn a_child_over_its_limit_is_killed() {
        let limit = Duration::from_millis(200);
        let started = Instant::now();
        let end = stream(shell("exec sleep 60"), limit, |_| {}).unwrap();
        assert_eq!(end, End::Limit(limit));
        assert!(started.elapsed() < Duration::from_secs(5));
    }

    /// Exercises a grandchild that keeps the pipe so that a leaked daemon does not hang the tests.
    #[test]
    fn a_grandchild_with_the_pipe_is_not_waited_for() {
        let started = Instant::now();
        let end = stream(shell("sleep 8 & echo done"), Duration::from_secs(60), |_| {}).unwrap();
        assert!(end.success());
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}
