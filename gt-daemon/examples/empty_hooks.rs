//! Puts an empty program beside each of gt's and has the kernel time them all, until stdin is closed.
//!
//! `cargo xtask bench hooks` speaks with it in lines of JSON. The first line has the hooks: which question,
//! which of gt's programs, and the number of the empty program beside it. Then each line on stdin is answered
//! by the names of all loaded programs, by number. Argument: auto, kprobe or btf, as the daemon's `--attach`.

use std::io::{self, BufRead as _, Write as _};

use anyhow::{Context as _, Result};
use clap::ValueEnum as _;
use gt_daemon::{
    kernel::{
        plan::{self, Attach},
        support::KernelSupport,
    },
    probes::empty::{load_empty, names, time_programs},
};
use serde_json::json;

fn main() -> Result<()> {
    let asked = std::env::args().nth(1).unwrap_or_else(|| "auto".to_owned());
    let attach = Attach::from_str(&asked, false).map_err(anyhow::Error::msg)?;
    let support = KernelSupport::probe();
    let mut questions = Vec::new();
    let mut targets = Vec::new();
    for choice in plan::plan(&support, attach) {
        let backend = choice.backend.with_context(|| {
            format!("no hook for {} on this kernel: {}", choice.question.name(), choice.reason)
        })?;
        for hook in plan::hooks(&support, choice.question, backend) {
            questions.push((choice.question, backend));
            targets.push((backend, hook));
        }
    }
    let _timed_while_this_lives = time_programs()?;
    let empties = load_empty(&targets)?;
    let hooks: Vec<_> = questions
        .iter()
        .zip(&empties)
        .map(|((question, backend), empty)| {
            json!({
                "question": question.name(),
                "backend": backend.name(),
                "program": empty.hook.program,
                "target": empty.hook.target,
                "empty": empty.id,
            })
        })
        .collect();
    say(&json!(hooks))?;
    for line in io::stdin().lock().lines() {
        line.context("cannot read stdin")?;
        say(&json!(names()?))?;
    }
    Ok(())
}

fn say(value: &serde_json::Value) -> Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{value}").and_then(|()| stdout.flush()).context("cannot write to stdout")
}
