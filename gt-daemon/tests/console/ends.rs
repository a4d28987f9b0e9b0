//! How a console ends, and how it leaves the terminal.

use std::{thread::sleep, time::Duration};

use anyhow::{Context as _, Result, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    suite::Case,
    terminal::{Terminal, console},
};

const BROKEN: &str = "istio-system/istio-ingressgateway-6d8f9c7b5-00002";

pub fn cases(missing: Option<&String>) -> Vec<Case> {
    vec![
        Case::new("quit", missing, quit),
        Case::new("signals", missing, signals),
        Case::new("panic", missing, panics),
        Case::new("suspend", missing, suspend),
        Case::new("until_over", missing, until_over),
        Case::new("no_terminal", missing, no_terminal),
    ]
}

/// A console started by a shell that had something on its screen, and says how the console ended and left the terminal. The
/// shell's modes are those that stty tells.
fn shell(further: &str) -> Result<Terminal> {
    let command = format!(
        "echo before; stty -a > /dev/null; {}; echo code=$?; stty -a | grep -o -e '[ ]icanon' -e '[ ]echo ' | tr -d '\\n'; echo .; sleep 60",
        console("drains/broken", further)
    );
    Terminal::start(80, 24, &[], &command)
}

/// Waits for the shell's words, and looks whether the terminal is as it was.
fn restored(terminal: &Terminal, code: u8) -> Result<String> {
    let screen = terminal.wait(&format!("code={code} and the modes"), |screen| {
        screen.contains(&format!("code={code}\n icanon echo .")) && screen.starts_with("before\n")
    })?;
    ensure!(
        terminal.format("#{alternate_on} #{cursor_flag}")? == "0 1",
        "screen or cursor were not given back"
    );
    Ok(screen)
}

fn shown(terminal: &Terminal) -> Result<()> {
    terminal.wait_for("VERDICT BROKEN")?;
    ensure!(terminal.format("#{alternate_on} #{cursor_flag}")? == "1 0", "not on a screen of its own");
    Ok(())
}

/// Exercises both keys that quit, so that the verdict stays on the terminal.
fn quit() -> Result<()> {
    for key in ["q", "C-c"] {
        let terminal = shell(&format!("max {BROKEN}"))?;
        shown(&terminal)?;
        terminal.keys(&[key])?;
        let screen = restored(&terminal, 0)?;
        ensure!(screen.contains("6d8f9c7b5-00002: broken\n- the load balancer cut 2 requests"), "{screen}");
    }
    Ok(())
}

/// The process on the terminal that is the console.
fn process(terminal: &Terminal) -> Result<Pid> {
    let shell = terminal.format("#{pane_pid}")?;
    let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"))?;
    let child = children.split_whitespace().next().context("the shell has no child")?;
    Ok(Pid::from_raw(child.parse()?))
}

/// Exercises signals that end a process, so that the terminal is given back and the code tells the signal.
fn signals() -> Result<()> {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130), (Signal::SIGHUP, 129)] {
        let terminal = shell(&format!("max {BROKEN}"))?;
        shown(&terminal)?;
        kill(process(&terminal)?, signal)?;
        restored(&terminal, code)?;
    }
    Ok(())
}

/// Exercises a panic, so that its message is seen on a terminal that is as it was.
fn panics() -> Result<()> {
    let terminal = shell(&format!("1 {BROKEN} panic"))?;
    terminal.wait_for("CUT")?;
    let screen = restored(&terminal, 101)?;
    ensure!(screen.contains("the test wished it"), "{screen}");
    Ok(())
}

/// Exercises Ctrl-Z and a stop from outside, so that the shell has the terminal meanwhile, and `fg` brings the screen back.
fn suspend() -> Result<()> {
    let command = format!(
        "set -m; {}; echo stopped; stty -a | grep -o ' icanon'; sleep 1; fg > /dev/null; echo back; sleep 60",
        console("drains/broken", &format!("max {BROKEN}"))
    );
    for by_key in [true, false] {
        let terminal = Terminal::start(80, 24, &[], &command)?;
        shown(&terminal)?;
        if by_key {
            terminal.keys(&["C-z"])?;
        } else {
            kill(process(&terminal)?, Signal::SIGTSTP)?;
        }
        terminal.wait_for("stopped\n icanon")?;
        terminal.wait_for_golden("broken-over-80x24")?;
        terminal.keys(&["q"])?;
        terminal.wait_for("back")?;
    }
    Ok(())
}

/// Exercises the end of a stream that was waited for, so that the code is the verdict's.
fn until_over() -> Result<()> {
    let terminal = shell(&format!("5 {BROKEN} until-over"))?;
    let screen = restored(&terminal, 2)?;
    ensure!(screen.contains("istio-system/istio-ingressgateway-6d8f9c7b5-00002: broken"), "{screen}");
    Ok(())
}

/// Exercises a terminal that goes away, so that no process is left behind.
fn no_terminal() -> Result<()> {
    let terminal = shell(&format!("max {BROKEN}"))?;
    shown(&terminal)?;
    let console = process(&terminal)?;
    drop(terminal);
    for _ in 0..200 {
        if kill(console, None).is_err() {
            return Ok(());
        }
        sleep(Duration::from_millis(50));
    }
    anyhow::bail!("process {console} is still there 10 s after its terminal has gone")
}
