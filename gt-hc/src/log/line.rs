//! One line: `ts=2026-05-31T07:12:36.123456Z event=transition from=OPEN to=DRAINING`.

use std::{
    fmt::{Display, Write as _},
    time::SystemTime,
};

use crate::clock;

/// A line that grows field by field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line(String);

impl Line {
    /// Begins with the instant and the event's name.
    #[must_use]
    pub fn new(at: SystemTime, event: &str) -> Self {
        Self(format!("ts={} event={event}", clock::utc(at)))
    }

    /// Adds `key=value`; the value is quoted where it would not be one word.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Display) -> Self {
        let value = value.to_string();
        self.0.push(' ');
        self.0.push_str(key);
        self.0.push('=');
        if is_word(&value) {
            self.0.push_str(&value);
        } else {
            push_quoted(&mut self.0, &value);
        }
        self
    }

    /// Adds `key=value` if there is a value: what is absent has no field.
    #[must_use]
    pub fn with_some(self, key: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// The text, without the end of the line.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_word(value: &str) -> bool {
    !value.is_empty()
        && value.chars().all(|c| !c.is_whitespace() && !c.is_control() && !matches!(c, '"' | '=' | '\\'))
}

/// What a peer sent may stand in a value: no byte of it may end the line or pass for another field.
fn push_quoted(line: &mut String, value: &str) {
    line.push('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => line.extend(['\\', c]),
            '\n' => line.push_str("\\n"),
            c if c.is_control() => {
                // Writing to a String cannot fail.
                let _infallible = write!(line, "\\u{{{:x}}}", u32::from(c));
            }
            c => line.push(c),
        }
    }
    line.push('"');
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use proptest::prelude::*;

    use super::*;

    /// Exercises the words that scripts grep for.
    #[test]
    fn a_transition() {
        let line = Line::new(UNIX_EPOCH, "transition")
            .with("from", "OPEN")
            .with("to", "DRAINING")
            .with_some("active", None::<u64>)
            .with("why", "a = \"b\"\n");
        assert_eq!(
            line.as_str(),
            r#"ts=1970-01-01T00:00:00.000000Z event=transition from=OPEN to=DRAINING why="a = \"b\"\n""#
        );
    }

    proptest! {
        /// Exercises any value so that it stays on its line and in its field.
        #[test]
        fn a_value_cannot_forge_a_line(value in any::<String>()) {
            let line = Line::new(UNIX_EPOCH, "x").with("v", &value);
            prop_assert!(!line.as_str().chars().any(char::is_control));
            let (_, written) = line.as_str().split_once(" v=").unwrap();
            if let Some(quoted) = written.strip_prefix('"') {
                let mut escaped = false;
                let end = quoted.chars().position(|c| {
                    let ends = c == '"' && !escaped;
                    escaped = c == '\\' && !escaped;
                    ends
                });
                prop_assert_eq!(end, Some(quoted.chars().count() - 1));
            } else {
                prop_assert_eq!(written, &value);
            }
        }
    }
}
