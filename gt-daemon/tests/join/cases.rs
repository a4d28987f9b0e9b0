//! The table of cases, and how one is played.

mod aborted;
mod improved;
mod killed;
mod quiet;
mod turned_away;

use std::{
    env,
    ops::RangeInclusive,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use xtask::stage::{interrupt, lb};

use crate::{
    expected::Expected,
    parts,
    record::{Mark, Record},
    scene::{SOON, Scene},
    suite::Case,
};

/// How often a case is played where `GT_REPEAT` says nothing.
const REPEAT: usize = 10;

/// Looks in a row that find the same, before a round is over.
const LOOKS: usize = 3;

/// Connections of this round or of one before may end, or go on.
const ANY: RangeInclusive<u64> = 0..=u64::MAX;

type Settings = &'static [(&'static str, &'static str)];

pub fn all() -> Vec<Case> {
    let missing = parts::missing();
    let missing = missing.as_ref();
    [
        turned_away::cases(missing),
        aborted::cases(missing),
        killed::cases(missing),
        quiet::cases(missing),
        improved::cases(missing),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Plays rounds on one stage; each must leave behind exactly what is expected, and `last` after the last one nothing more.
fn rounds(
    lb: &lb::Config,
    settings: Settings,
    expected: &Expected,
    play: impl Fn(&mut Scene) -> Result<()>,
    last: impl Fn(&mut Scene) -> Result<()>,
) -> Result<()> {
    let repeat = match env::var("GT_REPEAT") {
        Ok(text) => text.parse().context("GT_REPEAT is no number")?,
        Err(_) => REPEAT,
    };
    let mut scene = Scene::start(lb, settings)?;
    let mut settled = Mark::now(&scene)?;
    for round in 1..=repeat {
        let played = scene.ready().and_then(|()| nothing_more(&scene, &settled)).and_then(|()| {
            let mark = Mark::now(&scene)?;
            play(&mut scene)?;
            settle(&scene, &mark, expected)?;
            settled = Mark::now(&scene)?;
            Ok(())
        });
        played
            .map_err(|error| scene.daemon.explain(error))
            .with_context(|| format!("round {round} of {repeat}"))?;
    }
    last(&mut scene)?;
    nothing_more(&scene, &settled).context("after the last round")
}

/// Waits until all witnesses tell what is expected, and go on telling it.
fn settle(scene: &Scene, mark: &Mark, expected: &Expected) -> Result<()> {
    let until = Instant::now() + SOON;
    let mut agreed = 0;
    loop {
        interrupt::pause(Duration::from_millis(20))?;
        let record = mark.until_now(scene)?;
        let disagreements = expected.disagreements(&record);
        if disagreements.is_empty() {
            agreed += 1;
            if agreed == LOOKS {
                show(&record);
                return Ok(());
            }
        } else if Instant::now() > until {
            bail!("the witnesses disagree:\n- {}\n{record}", disagreements.join("\n- "));
        } else {
            agreed = 0;
        }
    }
}

/// With `GT_SHOW` in the environment, tells what was seen in a round on which all agree.
fn show(record: &Record) {
    if env::var_os("GT_SHOW").is_some() {
        println!("{record}");
    }
}

/// A cut that is counted later than its round would be one too many.
fn nothing_more(scene: &Scene, settled: &Mark) -> Result<()> {
    let record = settled.until_now(scene)?;
    ensure!(
        record.cuts.is_empty() && record.cut_rsts.is_empty(),
        "gt counts a cut after its round, or outside of any:\n{record}"
    );
    Ok(())
}

/// For cases after whose last round nothing is left to wait for.
fn nothing_left(_scene: &mut Scene) -> Result<()> {
    Ok(())
}
