//! The tables of `docs/metrics.md`, each between `<!-- table NAME -->` and `<!-- end -->`.

use std::{collections::BTreeSet, env, fs};

use super::{Family, TABLES};

/// The document, below the repository's root.
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");

fn row(family: &Family) -> String {
    let (kind, endings) = family.words();
    let ending = if endings.len() == 1 { endings[0] } else { "" };
    let labels: Vec<_> = family.labels.iter().map(|label| format!("`{label}`")).collect();
    let absent = if family.absent.is_empty() { "never" } else { family.absent };
    format!("| `{}{ending}` | {kind} | {} | {} | {absent} |\n", family.name, labels.join(", "), family.help)
}

fn table(families: &[Family]) -> String {
    let head = "| Metric | Type | Labels | Meaning | Absent |\n|---|---|---|---|---|\n";
    head.chars().chain(families.iter().map(row).collect::<String>().chars()).collect()
}

/// The document with the tables as they should be.
fn renewed(text: &str) -> String {
    TABLES.iter().fold(text.to_owned(), |text, (name, families)| {
        let begin = format!("<!-- table {name} -->\n");
        let (before, after) = text.split_once(&begin).unwrap_or_else(|| panic!("no {begin}"));
        let (_, rest) = after.split_once("<!-- end -->\n").unwrap_or_else(|| panic!("no end after {begin}"));
        format!("{before}{begin}{}<!-- end -->\n{rest}", table(families))
    })
}

/// Exercises the document against the registry's families, so that none is in one of them alone, with another type, other labels
/// or other words. With `GT_BLESS=1` the tables are written.
#[test]
fn tables() {
    let was = fs::read_to_string(DOCUMENT).unwrap();
    let is = renewed(&was);
    if env::var_os("GT_BLESS").is_some() {
        fs::write(DOCUMENT, &is).unwrap();
        return;
    }
    let differ: Vec<_> = was.lines().zip(is.lines()).filter(|(was, is)| was != is).take(3).collect();
    assert!(
        was == is,
        "docs/metrics.md differs: {differ:#?}; `GT_BLESS=1 cargo test -p gt-daemon --lib metrics::families` writes it anew"
    );
}

/// Exercises the prose: no metric is named there that is none any more.
#[test]
fn names_in_prose() {
    let known: BTreeSet<String> = TABLES
        .iter()
        .flat_map(|(_, families)| families.iter())
        .flat_map(|family| {
            family
                .words()
                .1
                .iter()
                .map(move |ending| format!("{}{ending}", family.name))
                .chain([family.name.to_owned()])
        })
        .collect();
    let text = fs::read_to_string(DOCUMENT).unwrap();
    let named =
        text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| word.starts_with("gt_"));
    let named: BTreeSet<_> = named.map(str::to_owned).collect();
    assert!(named.len() >= known.len() / 3, "{named:?}");
    let unknown: Vec<_> = named.difference(&known).collect();
    assert!(unknown.is_empty(), "named in docs/metrics.md and not exported: {unknown:?}");
}
