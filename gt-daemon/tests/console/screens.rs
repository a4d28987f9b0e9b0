//! What a terminal shows.

use std::{thread::sleep, time::Duration};

use anyhow::{Result, ensure};

use crate::{
    suite::Case,
    terminal::{Terminal, console, testdata},
};

const BROKEN: &str = "istio-system/istio-ingressgateway-6d8f9c7b5-00002";

pub fn cases(missing: Option<&String>) -> Vec<Case> {
    vec![
        Case::new("screens_that_are_kept", missing, kept),
        Case::new("from_a_pipe", missing, from_a_pipe),
        Case::new("keys", missing, keys),
        Case::new("sizes", missing, sizes),
        Case::new("no_flicker", missing, no_flicker),
        Case::new("colours", missing, colours),
        Case::new("pause_while_it_goes_on", missing, pause),
    ]
}

fn broken(columns: u16, rows: u16, variables: &[(&str, &str)], further: &str) -> Result<Terminal> {
    Terminal::start(columns, rows, variables, &console("drains/broken", &format!("max {BROKEN} {further}")))
}

/// Exercises screens of both sizes on a real terminal, so that it shows what the pure part draws.
fn kept() -> Result<()> {
    for (columns, rows) in [(80, 24), (160, 48)] {
        let size = format!("{columns}x{rows}");
        broken(columns, rows, &[], "")?.wait_for_golden(&format!("broken-over-{size}"))?;
        let fleet = |pod: &str| {
            Terminal::start(columns, rows, &[], &console("drains/fleet.jsonl", &format!("max {pod}")))
        };
        fleet("")?.wait_for_golden(&format!("table-{size}"))?;
        fleet(BROKEN)?.wait_for_golden(&format!("with-lb-{size}"))?;
    }
    Terminal::start(80, 24, &[("LC_ALL", "C")], &console("drains/fleet.jsonl", &format!("max {BROKEN}")))?
        .wait_for_golden("with-lb-ascii-80x24")
}

/// Exercises a stream from another command, so that keys are the terminal's all the same; and one with one pod, which is opened
/// when it is told of.
fn from_a_pipe() -> Result<()> {
    let cat = format!("cat {} | ", testdata("drains/fleet.jsonl").display());
    let terminal = Terminal::start(80, 24, &[], &(cat + &console("-", "max")))?;
    terminal.wait_for_golden("table-80x24")?;
    terminal.keys(&["End", "Up", "Enter"])?;
    terminal.wait_for_golden("with-lb-80x24")?;
    Terminal::start(80, 24, &[], &console("drains/broken", "max first"))?.wait_for_golden("broken-over-80x24")
}

/// Exercises keys as a terminal sends them, so that each is known for what it is.
fn keys() -> Result<()> {
    let terminal = Terminal::start(80, 24, &[], &console("drains/fleet.jsonl", "max"))?;
    terminal.wait_for_golden("table-80x24")?;
    terminal.keys(&["Down", "Down", "Down", "Up", "Enter"])?;
    terminal.wait_for_golden("with-lb-80x24")?;
    terminal.keys(&["?"])?;
    terminal.wait_for("Ctrl-L, Ctrl-Z")?;
    terminal.keys(&["Escape"])?;
    terminal.wait_for_golden("with-lb-80x24")?;
    terminal.keys(&["C-l"])?;
    terminal.wait_for_golden("with-lb-80x24")?;
    terminal.keys(&["/", "a", "w", "a", "i", "t", "i", "n", "g", "x", "BSpace", "Enter"])?;
    let filtered = terminal.wait_for("with \"awaiting\"")?;
    ensure!(filtered.matches("CUT").count() == 1 && !filtered.contains(" conns "), "{filtered}");
    terminal.keys(&["Escape"])?;
    terminal.wait_for_golden("with-lb-80x24")?;
    terminal.keys(&["Escape"])?;
    terminal.wait_for_golden("table-80x24").map(drop)
}

/// Exercises sizes down to one cell and back, so that it goes on, and the screen is the same again.
fn sizes() -> Result<()> {
    let terminal = broken(80, 24, &[], "")?;
    terminal.wait_for_golden("broken-over-80x24")?;
    for (columns, rows) in [(1, 1), (20, 5), (2, 50), (200, 2), (7, 7), (300, 100), (1, 24), (80, 1)] {
        terminal.resize(columns, rows)?;
        // Each size is drawn at least once.
        sleep(Duration::from_millis(120));
        ensure!(terminal.format("#{pane_dead}")? == "0", "it ended at {columns}x{rows}");
    }
    terminal.resize(160, 48)?;
    terminal.wait_for_golden("broken-over-160x48")?;
    terminal.resize(80, 24)?;
    terminal.wait_for_golden("broken-over-80x24")
}

/// Exercises a screen that changes its size and one on which nothing happens, so that the terminal is never cleared but in
/// one piece with what it is to show, and is not drawn anew for nothing.
fn no_flicker() -> Result<()> {
    const BEGIN: &str = "\u{1b}[?2026h";
    const END: &str = "\u{1b}[?2026l";

    let terminal = broken(80, 24, &[], "")?;
    terminal.wait_for_golden("broken-over-80x24")?;
    terminal.listen()?;
    sleep(Duration::from_secs(1));
    let idle = terminal.sent()?.replace(BEGIN, "").replace(END, "");
    ensure!(idle.len() < 400, "{} bytes in a second in which nothing happens: {idle:?}", idle.len());
    for columns in [90, 100, 81, 80] {
        terminal.resize(columns, 24)?;
        sleep(Duration::from_millis(120));
    }
    terminal.wait_for_golden("broken-over-80x24")?;
    let sent = terminal.sent()?;
    let clears: Vec<_> = sent.match_indices("\u{1b}[2J").map(|(at, _)| at).collect();
    ensure!(!clears.is_empty(), "no size was drawn: {sent:?}");
    for at in clears {
        let before = sent.get(..at).unwrap_or_default();
        ensure!(before.rfind(BEGIN) > before.rfind(END), "cleared outside of a frame: {before:?}");
    }
    Ok(())
}

/// Exercises a terminal with colours and three ways to have none, so that the text is the same.
fn colours() -> Result<()> {
    let styled = |variables: &[(&str, &str)], further: &str| {
        let terminal = broken(80, 24, variables, further)?;
        terminal.wait_for_golden("broken-over-80x24")?;
        terminal.styled()
    };
    let coloured = |screen: &str| screen.contains("\u{1b}[31m") || screen.contains("38;5;1m");
    let usual = styled(&[], "")?;
    ensure!(coloured(&usual), "no red in {usual:?}");
    for (variables, further) in
        [(&[("NO_COLOR", "1")][..], ""), (&[("TERM", "vt220")], ""), (&[], "no-colour")]
    {
        let plain = styled(variables, further)?;
        // 39 and 49 are what the terminal has of its own.
        let codes = plain.split("\u{1b}[").skip(1).filter_map(|code| code.split_once('m'));
        let mut codes =
            codes.flat_map(|(codes, _)| codes.split(';')).filter_map(|code| code.parse::<u8>().ok());
        let is_colour = |code: u8| matches!(code, 30..=38 | 40..=48 | 90..=107);
        ensure!(!codes.any(is_colour), "{variables:?} {further}: colours in {plain:?}");
    }
    Ok(())
}

/// Exercises a pause in the middle of a drain, so that the screen stands still, and all that happened is shown afterwards.
fn pause() -> Result<()> {
    let terminal = Terminal::start(80, 24, &[], &console("drains/broken", &format!("1 {BROKEN}")))?;
    terminal.wait_for("CUT")?;
    terminal.keys(&["Space"])?;
    let body = |screen: &str| screen.lines().take(23).collect::<Vec<_>>().join("\n");
    let paused = body(&terminal.wait_for("PAUSED 17:21:07")?);
    // The drain is over 2.4 s later.
    terminal.wait_for("and the stream is over")?;
    ensure!(body(&terminal.screen()?) == paused, "it moved: {paused}\n{}", terminal.screen()?);
    terminal.keys(&["Space"])?;
    terminal.wait_for_golden("broken-over-80x24")
}
