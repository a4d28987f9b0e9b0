//! Pages of real drains in a real browser: what its DOM holds, what its console says, and that it prints them.

mod browser;
#[path = "../common/suite.rs"]
mod suite;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result, ensure};
use libtest_mimic::Arguments;
use tempfile::TempDir;

use browser::Browser;
use suite::Case;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let missing = browser::missing();
    let case = |name, run| Case::new(name, missing.as_ref(), run);
    let cases = [
        case("values_in_the_dom", values_in_the_dom),
        case("nothing_is_refused", nothing_is_refused),
        case("names_are_text", names_are_text),
        case("prints", prints),
    ];
    suite::run(&arguments, cases).exit_code()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/drains").join(name)
}

/// Writes a drain's page by the command that users have.
fn report(drain: &Path, page: &Path) -> Result<()> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gt-daemon"));
    let output = command.arg("report").arg(drain).arg("--output").arg(page).output()?;
    ensure!(output.status.success(), "gt-daemon report: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// The text of an element by its id; it holds no further element of its own kind.
fn text(dom: &str, id: &str) -> Result<String> {
    let content = || {
        let (before, after) = dom.split_once(&format!(" id=\"{id}\""))?;
        let tag = before.rsplit('<').next()?.split(' ').next()?;
        let (_, content) = after.split_once('>')?;
        content.split_once(&format!("</{tag}>")).map(|(content, _)| content)
    };
    let content = content().with_context(|| format!("no element {id} in {dom}"))?;
    let pieces = content.split('<').map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text));
    Ok(pieces.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" "))
}

/// Exercises pages of four real drains, so that a browser shows the verdict, the intervals and the numbers that are in the
/// records.
fn values_in_the_dom() -> Result<()> {
    let dir = TempDir::new()?;
    let browser = Browser::new(dir.path());
    let of = [
        ("s1_current", "broken", "0.334827 s", "not known", "not known", "1"),
        ("s2_improved", "protected", "1.738186 s", "not known", "not known", "0"),
        ("s1_current_lb", "broken", "0.334827 s", "−0.004043 s", "not known", "1"),
        ("s2_improved_lb", "protected", "1.738186 s", "0.245334 s", "0.213083 s", "0"),
    ];
    for (name, verdict, to_zero, to_down, to_rst, cuts) in of {
        let page = dir.path().join(format!("{name}.html"));
        report(&fixture(name), &page)?;
        let dom = browser.dom(&page)?;
        ensure!(text(&dom, "verdict")? == verdict, "{name}: {}", text(&dom, "verdict")?);
        for (id, value) in [
            ("drain_to_active_zero", to_zero),
            ("active_zero_to_lb_down", to_down),
            ("lb_down_to_first_rst", to_rst),
            ("cuts", cuts),
        ] {
            let row = text(&dom, id)?;
            ensure!(format!("{row} ").contains(&format!(" {value} ")), "{name}, {id}: {row}");
        }
        ensure!(
            dom.contains("OPEN: ") && dom.contains("requests in flight at the proxy: 1 at most"),
            "{name}"
        );
        ensure!(dom.contains("unknown: no load balancer was read") != name.ends_with("_lb"), "{name}");
        let facts = fs::read_to_string(fixture(name).join("timeline.jsonl"))?;
        for line in facts.lines() {
            let stamp = line.split('"').nth(3).context("a line without a stamp")?;
            ensure!(dom.contains(&format!("<td class=\"time\">{stamp}</td>")), "{name}: no row of {stamp}");
        }
    }
    Ok(())
}

/// Exercises a page's own policy and its shape, so that the browser refuses nothing of it and says nothing to the console;
/// a page with a script, which the same policy forbids, shows that the console would tell.
fn nothing_is_refused() -> Result<()> {
    let dir = TempDir::new()?;
    let browser = Browser::new(dir.path());
    let page = dir.path().join("page.html");
    report(&fixture("s2_improved_lb"), &page)?;
    let said = browser.console(&page)?;
    ensure!(said.is_empty(), "{said:?}");
    let with_script =
        fs::read_to_string(&page)?.replace("</body>", "<script>console.log('ran')</script></body>");
    fs::write(&page, with_script)?;
    let said = browser.console(&page)?;
    ensure!(said.iter().any(|line| line.contains("Content Security Policy")), "{said:?}");
    ensure!(!said.iter().any(|line| line.contains("\"ran\"")), "{said:?}");
    Ok(())
}

/// Exercises a pod whose name is markup, so that the browser makes no element of it.
fn names_are_text() -> Result<()> {
    let dir = TempDir::new()?;
    let browser = Browser::new(dir.path());
    let drain = dir.path().join("drain");
    fs::create_dir(&drain)?;
    fs::copy(fixture("s1_current").join("timeline.jsonl"), drain.join("timeline.jsonl"))?;
    let hostile = r"</h1><img src=x onerror=alert(1)><b>";
    let summary = fs::read_to_string(fixture("s1_current").join("intervals.json"))?;
    fs::write(drain.join("intervals.json"), summary.replace("istio-ingressgateway", hostile))?;
    let page = dir.path().join("page.html");
    report(&drain, &page)?;
    let dom = browser.dom(&page)?;
    ensure!(!dom.contains("<img") && !dom.contains("<b>"), "{dom}");
    ensure!(dom.contains("&lt;/h1&gt;&lt;img src=x onerror=alert(1)&gt;"), "{dom}");
    Ok(())
}

/// Exercises the page on paper, so that it can be printed.
fn prints() -> Result<()> {
    let dir = TempDir::new()?;
    let browser = Browser::new(dir.path());
    let page = dir.path().join("page.html");
    report(&fixture("s2_improved_lb"), &page)?;
    let pdf = browser.pdf(&page)?;
    ensure!(pdf.starts_with(b"%PDF-") && pdf.len() > 10_000, "{} bytes", pdf.len());
    Ok(())
}
