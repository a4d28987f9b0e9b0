//! The PromQL that stands in documents: README.md and all below `docs/`.
//!
//! Fenced blocks of the language `promql`, and what is written like an expression within a line, are asked of promtool, as a file
//! of rules made on the spot. There and in every other line a series of gt's must be one that gt exports or that the rules record,
//! with labels that it has.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use anyhow::{Context as _, ensure};
use gt_daemon::metrics::families::{Family, TABLES};
use serde_json::json;
use xtask::{deploy::rules, sandbox};

use crate::{Case, repository, rules::strange_groups, without};

pub fn cases() -> Vec<Case> {
    let no_promtool = without("promtool");
    vec![
        Case::new("docs::expressions", no_promtool.as_ref(), expressions),
        Case::new("docs::a_wrong_expression_is_told", no_promtool.as_ref(), a_wrong_expression_is_told),
        Case::new("docs::names_and_labels", None, names_and_labels),
        Case::new("docs::mistakes_are_told", None, mistakes_are_told),
    ]
}

/// What names of series begin with that are gt's own.
const PREFIXES: [&str; 3] = ["gt_", "gt:", "lb:"];

/// Labels that Prometheus, or the PodMonitor, puts on every series.
const OF_THE_SCRAPE: [&str; 3] = ["instance", "job", "node"];

/// A piece of a document: its path and line.
type Place = (String, usize);

/// The documents, by their path from the root.
fn documents() -> anyhow::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::from([("README.md".to_owned(), fs::read_to_string(repository("README.md"))?)]);
    let mut directories = vec!["docs".to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(repository(&directory))? {
            let entry = entry?;
            let path = format!("{directory}/{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                directories.push(path);
            } else if Path::new(&path).extension().is_some_and(|extension| extension == "md") {
                found.insert(path.clone(), fs::read_to_string(repository(&path)).context(path)?);
            }
        }
    }
    Ok(found)
}

/// The expressions of a document's `promql` blocks, with the lines where they begin. A line begins one unless it is indented
/// more than its block, or closes what was opened before.
fn promql(path: &str, text: &str) -> Vec<(Place, String)> {
    let mut found: Vec<(Place, String)> = Vec::new();
    let mut block = None;
    for (number, line) in (1..).zip(text.lines()) {
        let bare = line.trim_start();
        let indent = line.len() - bare.len();
        match block {
            None if bare == "```promql" => block = Some(indent),
            Some(_) if bare == "```" => block = None,
            Some(margin) if indent > margin || bare.starts_with(')') => {
                if let Some((_, expression)) = found.last_mut() {
                    expression.push('\n');
                    expression.push_str(bare);
                }
            }
            Some(_) if !bare.is_empty() => found.push(((path.to_owned(), number), bare.to_owned())),
            _ => {}
        }
    }
    found
}

/// What stands in a line as code, names a series of gt's and is more than its name: an expression. A list of labels without
/// values is none.
fn inline(path: &str, text: &str) -> Vec<(Place, String)> {
    let mut found = Vec::new();
    let mut is_fenced = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            let spans = line.split('`').skip(1).step_by(2);
            let spans = spans.filter(|span| span.contains("=\"") || span.contains('('));
            let spans =
                spans.filter(|span| !rules::metrics(span, &PREFIXES).is_empty() && !span.contains(".."));
            found.extend(spans.map(|span| ((path.to_owned(), number), span.to_owned())));
        }
    }
    found
}

/// Has promtool read expressions. Its error has the name of the rule, and so the place.
fn check(expressions: &[(Place, String)]) -> anyhow::Result<()> {
    let rules: Vec<_> = (1..)
        .zip(expressions)
        .map(|(count, ((path, line), expression))| {
            let path: String =
                path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
            // Two of one line are two rules.
            json!({"record": format!("{path}:{line}:{count}"), "expr": expression})
        })
        .collect();
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("rules.json");
    fs::write(&file, json!({"groups": [{"name": "documents", "rules": rules}]}).to_string())?;
    let said = sandbox::run(Command::new("promtool").args(["check", "rules"]).arg(&file))?;
    let counted = format!("{} rules found", expressions.len());
    ensure!(said.contains(&counted), "promtool did not read all of {}: {said}", expressions.len());
    Ok(())
}

/// Exercises each expression that a reader is told to ask, so that Prometheus understands it.
fn expressions() -> anyhow::Result<()> {
    let documents = documents()?;
    let mut all: Vec<_> = documents.iter().flat_map(|(path, text)| promql(path, text)).collect();
    ensure!(all.len() >= 12, "only {} in blocks: {all:?}", all.len());
    let in_lines: Vec<_> = documents.iter().flat_map(|(path, text)| inline(path, text)).collect();
    ensure!(in_lines.len() >= 8, "only {} in lines: {in_lines:?}", in_lines.len());
    all.extend(in_lines);
    check(&all)
}

/// Exercises a block with a good and a bad expression, and a bad one in a line, so that the bad ones are told with their places.
fn a_wrong_expression_is_told() -> anyhow::Result<()> {
    let line = "See `sum by (pod (gt_pods)`, `gt_x{a, b}` and `gt_pods`.\n";
    let found = inline("docs/x.md", &format!("{line}```text\n{line}```\n"));
    ensure!(found.len() == 1 && check(&found).is_err(), "{found:?}");
    let text = "- a list\n\n  ```promql\n  sum by (pod) (\n    gt_pods\n  )\n  rate(gt_rst_total)\n  ```\n";
    let all = promql("docs/x.md", text);
    let places: Vec<_> = all.iter().map(|((_, line), expression)| (*line, expression.as_str())).collect();
    ensure!(places == [(4, "sum by (pod) (\ngt_pods\n)"), (7, "rate(gt_rst_total)")], "{places:?}");
    check(&all[..1])?;
    let error = check(&all).err().context("promtool took rate() of an instant vector")?;
    ensure!(format!("{error:#}").contains("docs_x_md:7"), "{error:#}");
    Ok(())
}

/// Whether `name` is that of a family's samples; in text also the family's own, which stands for all of a histogram's, and in
/// an exposition's comments for a counter's.
fn names(family: &Family, name: &str, line: &str, is_expression: bool) -> bool {
    let (kind, suffixes) = family.words();
    let of_sample = suffixes.iter().any(|suffix| name.strip_suffix(suffix) == Some(family.name));
    let of_family = !is_expression && (kind == "histogram" || line.starts_with("# "));
    of_sample || (of_family && name == family.name)
}

/// What is wrong with the series that a line, or an expression, names.
fn faults(line: &str, recorded: &BTreeSet<String>, is_expression: bool) -> Vec<String> {
    let families: Vec<_> = TABLES.iter().flat_map(|(_, families)| *families).collect();
    let mut faults = Vec::new();
    let is_part = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | ':' | '*');
    for word in line.split(|character| !is_part(character)) {
        let word = word.trim_end_matches(':');
        let is_series = PREFIXES.iter().any(|prefix| word.starts_with(prefix));
        // `gt_daemon::run` is a module of the program, `lb:*` are all that begin so, and `http://gt:PASSWORD@..` is an address.
        let is_other = word.contains("::") || word.ends_with('*') || line.contains(&format!("//{word}@"));
        let is_known =
            recorded.contains(word) || families.iter().any(|family| names(family, word, line, is_expression));
        if is_series && !is_other && !is_known {
            faults.push(format!("{word} is neither exported nor recorded"));
        }
    }
    for (metric, labels) in rules::labels(line, &["gt_"]) {
        let bare = metric.strip_suffix("_total").or(metric.strip_suffix("_info")).unwrap_or(&metric);
        let Some(family) = families.iter().find(|family| family.name == bare) else { continue };
        // A list of labels without values stands for itself: `gt_x{a, b}`; `..` for all that are left out.
        for label in labels.split([',', ' ']).filter(|label| !label.is_empty() && *label != "..") {
            let is_bucket = label == "le" && family.words().0 == "histogram";
            if !is_bucket && !family.labels.contains(&label) && !OF_THE_SCRAPE.contains(&label) {
                faults.push(format!("{metric} has no label {label}: {:?}", family.labels));
            }
        }
    }
    faults
}

fn recorded() -> anyhow::Result<BTreeSet<String>> {
    let base = rules::base()?;
    let records = rules::rules(&base, "record").filter_map(|rule| rule["record"].as_str());
    Ok(records.map(str::to_owned).collect())
}

/// Exercises every line of every document so that no reader asks for a series, or by a label, that is not there: Prometheus
/// answers such a question with nothing.
fn names_and_labels() -> anyhow::Result<()> {
    let recorded = recorded()?;
    let mut told = Vec::new();
    for (path, text) in documents()? {
        for (number, line) in (1..).zip(text.lines()) {
            told.extend(
                faults(line, &recorded, false).into_iter().map(|fault| format!("{path}:{number}: {fault}")),
            );
        }
        for ((_, number), expression) in promql(&path, &text).into_iter().chain(inline(&path, &text)) {
            let strange = strange_groups(&expression).into_iter();
            let strange = strange.map(|label| format!("no series has a label {label} to group by"));
            let found = faults(&expression, &recorded, true).into_iter().chain(strange);
            told.extend(found.map(|fault| format!("{path}:{number}: {fault}")));
        }
    }
    ensure!(told.is_empty(), "{}", told.join("\n"));
    Ok(())
}

/// Exercises mistakes, and what only looks like one, so that each of the first is told and none of the others.
fn mistakes_are_told() -> anyhow::Result<()> {
    let recorded = recorded()?;
    for bad in [
        "`gt_rsts_total`",
        "| `gt_inflight_cuts_total{cause, hc_status, how}` |",
        "sum(gt_drains_total{verdicts=\"broken\"})",
        "`gt_poll_seconds_total`",
        "`gt:cuts:rate10m` and more",
        "gt_rst",
        "rate(gt_rst_total{le=\"1\"}[5m])",
    ] {
        let found = faults(bad, &recorded, false);
        ensure!(found.len() == 1, "{bad}: {found:?}");
    }
    for good in [
        "# TYPE gt_rst counter",
        "gt_drain_to_active_zero_seconds",
        "`gt_inflight_cuts_total{.., how, cause}` and gt_poll_seconds_bucket{le=\"+Inf\", source=\"hc\"}",
        "`lb:*`, `gt:cuts:rate5m`, GT_LOG=gt_daemon::pods=debug, http://gt:PASSWORD@lb-1:8404/stats;csv",
        "`gt_hook_attached{hook=\"read}\", node=\"a\"}`",
    ] {
        let found = faults(good, &recorded, false);
        ensure!(found.is_empty(), "{good}: {found:?}");
    }
    let strange = strange_groups("sum by (pod, hc_status) (gt_hc_state)");
    ensure!(strange == ["hc_status"], "{strange:?}");
    // Text may speak of a histogram; a question is for its samples.
    let found = faults("rate(gt_drain_to_active_zero_seconds[5m])", &recorded, true);
    ensure!(found.len() == 1, "{found:?}");
    Ok(())
}
