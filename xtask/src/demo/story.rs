//! How the demo speaks: a UTC time and a plain sentence; numbers are indented below.

use std::time::SystemTime;

use crate::stage::{clock, counts::Counts};

/// Tells what just happened.
macro_rules! tell {
    ($($words:tt)*) => { $crate::demo::story::line(&format!($($words)*)) };
}

/// Shows what was measured, below the last sentence.
macro_rules! measure {
    ($($words:tt)*) => { $crate::demo::story::indented(&format!($($words)*)) };
}

pub(super) use {measure, tell};

/// Opens the story.
pub(super) fn title() {
    let now = clock::utc(SystemTime::now());
    say(&format!("gt demo, {} (times are UTC)", now.split('T').next().unwrap_or_default()));
}

/// A sentence with the time of day, in milliseconds.
pub(super) fn line(words: &str) {
    let now = clock::utc(SystemTime::now());
    say(&format!("{}  {words}", now.get(11..23).unwrap_or_default()));
}

/// A line that belongs to the one above.
pub(super) fn indented(words: &str) {
    say(&format!("                {words}"));
}

/// What the daemon counted between two readings.
pub(super) fn table(before: &Counts, after: &Counts) {
    let whose = if after.told_apart { "gateway" } else { "pod" };
    for (what, from, to) in [
        ("connections opened", before.opened, after.opened),
        ("connections closed", before.closed, after.closed),
        ("RSTs received", before.gateway_rsts("received"), after.gateway_rsts("received")),
        ("RSTs sent", before.gateway_rsts("sent"), after.gateway_rsts("sent")),
    ] {
        match (from, to) {
            (Some(from), Some(to)) => measure!("{whose:<8}{what:<20}{from} -> {to}"),
            _ => measure!("{whose:<8}{what:<20}not counted"),
        }
    }
    for (kind, count) in after.rsts_since(before).unwrap_or_default() {
        measure!("new RST: {kind}: {count}");
    }
    for (kind, count) in after.cuts_since(before).unwrap_or_default() {
        measure!("cut in flight: {kind}: {count}");
    }
}

fn say(words: &str) {
    use std::io::Write as _;
    // A reader that went away (`| head`) must not keep the demo from cleaning up.
    let _nobody_listens = writeln!(std::io::stdout(), "{words}");
}
