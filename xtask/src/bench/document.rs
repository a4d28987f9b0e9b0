//! docs/benchmarks.md: each benchmark has a section of it, and leaves those of the others alone.

use std::{fs, io, path::PathBuf, time::SystemTime};

use anyhow::{Context as _, Result};

use super::machine::Machine;
use crate::{cargo, stage::clock};

const HEAD: &str = "# Benchmarks

Each section is written by the command it names. Run that again rather than edit this file.
";

/// Puts a benchmark's section, without its heading, in the place of the one before.
pub(super) fn write(title: &str, command: &str, machine: &Machine, text: &str) -> Result<PathBuf> {
    let file = cargo::root().join("docs/benchmarks.md");
    let before = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    let time = clock::utc(SystemTime::now());
    let date = time.get(..10).unwrap_or(&time);
    let section =
        format!("Written by `cargo xtask bench {command}` on {date}.\n\nMachine: {machine}.\n\n{text}");
    fs::write(&file, replaced(&before, title, &section))
        .with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

/// The document with this section: in its old place, or at the end.
fn replaced(document: &str, title: &str, section: &str) -> String {
    let mut parts = document.split("\n## ");
    parts.next();
    let mut sections: Vec<(&str, &str)> =
        parts.map(|part| part.split_once('\n').unwrap_or((part, ""))).collect();
    match sections.iter_mut().find(|(known, _)| *known == title) {
        Some((_, text)) => *text = section,
        None => sections.push((title, section)),
    }
    let sections: String =
        sections.iter().map(|(title, text)| format!("\n## {title}\n\n{}\n", text.trim())).collect();
    format!("{HEAD}{sections}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises sections that are new and old, so that each is there once and no other is touched.
    #[test]
    fn sections() {
        let first = replaced("", "Hooks", "one\n\n### Detail\n\ntwo\n");
        assert_eq!(first, format!("{HEAD}\n## Hooks\n\none\n\n### Detail\n\ntwo\n"));
        let second = replaced(&first, "Reading", "three\n");
        assert_eq!(second, format!("{first}\n## Reading\n\nthree\n"));
        assert_eq!(replaced(&second, "Reading", "three\n"), second);
        let third = replaced(&second, "Hooks", "four");
        assert_eq!(third, format!("{HEAD}\n## Hooks\n\nfour\n\n## Reading\n\nthree\n"));
    }
}
