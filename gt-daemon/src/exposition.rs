//! What all readers of Prometheus' text share: `metric{label="value",..} number`. Pure.

use crate::quoted::quoted;

/// Whether this may be the name of a metric.
#[must_use]
pub fn is_metric(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':');
    name.bytes().all(allowed) && !name.is_empty() && !name.starts_with(|first: char| first.is_ascii_digit())
}

/// The next thing inside `{..}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// A label's name and value, and what follows.
    Label(&'a str, String, &'a str),
    /// The closing brace, and what follows.
    End(&'a str),
}

/// Reads on from after `{`, or after a label; `None` for anything malformed.
#[must_use]
pub fn part(rest: &str) -> Option<Part<'_>> {
    let rest = rest.trim_start_matches([',', ' ']);
    if let Some(after) = rest.strip_prefix('}') {
        return Some(Part::End(after));
    }
    let (name, after) = rest.split_once("=\"")?;
    let (value, after) = quoted(after, escaped)?;
    Some(Part::Label(name, value, after))
}

/// What is escaped in a label's value: `\\`, `\"` and `\n`.
fn escaped(letter: char) -> char {
    if letter == 'n' { '\n' } else { letter }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises labels with what may stand in their values, and ones that are cut off.
    #[test]
    fn parts() {
        let label = |name, value: &str, rest| Some(Part::Label(name, value.to_owned(), rest));
        assert_eq!(part(r#"a="b",c="d"} 1"#), label("a", "b", r#",c="d"} 1"#));
        assert_eq!(part(r#", c="\"}\\\n"} 1"#), label("c", "\"}\\\n", "} 1"));
        assert_eq!(part("} 1"), Some(Part::End(" 1")));
        for cut in ["", "a", r#"a="b"#, r#"a="\"#, ","] {
            assert_eq!(part(cut), None, "{cut}");
        }
    }
}
