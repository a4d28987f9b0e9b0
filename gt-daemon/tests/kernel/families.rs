//! Whether a scrape has what the families say, which docs/metrics.md is written from: names, types, words, labels.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use gt_daemon::{
    exposition::{Part, part},
    metrics::families::{Family, TABLES},
};

/// All families.
fn all() -> impl Iterator<Item = &'static Family> {
    TABLES.iter().flat_map(|(_, families)| families.iter())
}

/// The names of the labels in `a="b",..} 1`, in their order.
fn labels(mut rest: &str) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    loop {
        match part(rest)? {
            Part::Label(name, _, after) => {
                names.push(name);
                rest = after;
            }
            Part::End(_) => return Some(names),
        }
    }
}

/// Compares a whole exposition with the families. Returns those that have a sample.
pub fn agree(text: &str) -> Result<BTreeSet<&'static str>> {
    let heads: BTreeSet<_> = text.lines().filter(|line| line.starts_with("# ") && *line != "# EOF").collect();
    let expected: BTreeSet<_> = all()
        .flat_map(|family| {
            let (kind, _) = family.words();
            [format!("# HELP {} {}", family.name, family.help), format!("# TYPE {} {kind}", family.name)]
        })
        .collect();
    let expected: BTreeSet<_> = expected.iter().map(String::as_str).collect();
    let differ: Vec<_> = heads.symmetric_difference(&expected).collect();
    ensure!(differ.is_empty(), "in the exposition or in the families alone: {differ:#?}");
    let mut told = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        let is_of = |family: &&Family| {
            name.strip_prefix(family.name).is_some_and(|rest| family.words().1.contains(&rest))
        };
        let family = all().find(is_of).with_context(|| format!("no family has this sample: {line}"))?;
        let found = match line.strip_prefix(name).and_then(|rest| rest.strip_prefix('{')) {
            Some(rest) => labels(rest).with_context(|| format!("labels that cannot be read: {line}"))?,
            None => Vec::new(),
        };
        let found: Vec<_> = found.into_iter().filter(|label| *label != "le").collect();
        ensure!(found == family.labels, "{line}: labels {found:?}, not {:?}", family.labels);
        told.insert(family.name);
    }
    Ok(told)
}

/// That each family has a sample, so that the labels of each were compared.
pub fn are_all_told(text: &str) -> Result<()> {
    let told = agree(text)?;
    let silent: Vec<_> = all().map(|family| family.name).filter(|name| !told.contains(name)).collect();
    ensure!(silent.is_empty(), "families without a sample: {silent:?}");
    Ok(())
}
