//! What a command tells whoever started it. A pipe that was closed loses the words, not the command:
//! `println!` would panic, and the exit code would be no word about the drain.

use std::{
    fmt::Display,
    io::{self, Write as _},
};

/// A line on stdout.
pub fn out(text: impl Display) {
    let _closed_pipe = writeln!(io::stdout(), "{text}");
}

/// A line on stderr, after the program's name.
pub fn err(text: impl Display) {
    let _closed_pipe = writeln!(io::stderr(), "gt-hc: {text}");
}
