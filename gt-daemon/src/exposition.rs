//! What all readers of Prometheus' text share: `metric{label="value",..} number`. Pure.

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
    let (value, after) = quoted(after)?;
    Some(Part::Label(name, value, after))
}

/// A label's value up to its closing quote, with `\\`, `\"` and `\n` resolved, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    loop {
        match chars.next()? {
            (index, '"') => return Some((value, text.get(index + 1..)?)),
            (_, '\\') => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            (_, other) => value.push(other),
        }
    }
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
