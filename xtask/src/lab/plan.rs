//! What is played: scenarios, modes, and how long each part of them lasts. Pure.

use std::{fmt, time::Duration};

use anyhow::{Result, bail};
use clap::ValueEnum;

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Which {
    /// One long request, current mode: cut
    S1,
    /// One long request, improved mode: protected
    S2,
    /// Continuous load while all pods are replaced, one after the other
    S3,
    /// Streams, counted chunk by chunk
    S4,
    /// A request longer than the drain's time limit: the sidecar gives up, improved mode
    Fault,
    /// A request longer than the grace period: the kubelet kills, improved mode
    Killed,
    /// All of them
    All,
}

/// When the sidecar turns the load balancer away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    /// At once, whatever is in flight
    Current,
    /// When nothing is in flight
    Improved,
}

/// A scenario in one mode over one protocol, played some times on one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Play {
    pub(super) scenario: Which,
    pub(super) mode: Mode,
    pub(super) http2: bool,
    pub(super) repeat: usize,
    pub(super) timing: Timing,
}

/// The runbook's numbers, and what they follow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timing {
    /// How long the long request takes.
    pub(super) asked: Duration,
    /// From the request to the deletion of its pod.
    pub(super) delete_after: Duration,
    /// Between two health checks.
    pub(super) inter: Duration,
    pub(super) lb_buffer: Duration,
    pub(super) drain_timeout: Duration,
    /// In whole seconds, as a pod has it.
    pub(super) grace: Duration,
    /// Between two looks at Envoy, of the sidecar and of the lab.
    pub(super) poll: Duration,
}

impl Timing {
    /// As the runbook has them, for a request of this length.
    fn runbook(asked: Duration) -> Self {
        let inter = Duration::from_secs(2);
        let (drain_timeout, lb_buffer) = (asked.mul_f64(1.2), inter * 2 + Duration::from_secs(5));
        Self {
            asked,
            delete_after: Duration::from_secs(5).min(asked / 4),
            inter,
            lb_buffer,
            drain_timeout,
            grace: up(drain_timeout + lb_buffer + Duration::from_secs(30)),
            poll: Duration::from_secs(1),
        }
    }

    /// Ten times as fast.
    fn short(asked: Duration) -> Self {
        let lb_buffer = Duration::from_millis(1500);
        let drain_timeout = asked + Duration::from_secs(20);
        Self {
            asked,
            delete_after: Duration::from_millis(300),
            inter: Duration::from_millis(200),
            lb_buffer,
            drain_timeout,
            grace: up(drain_timeout + lb_buffer + Duration::from_secs(10)),
            poll: Duration::from_millis(100),
        }
    }
}

/// The next whole second.
fn up(time: Duration) -> Duration {
    Duration::from_secs(time.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX))
}

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) which: Which,
    pub(super) mode: Option<Mode>,
    pub(super) seconds: Option<u64>,
    pub(super) repeat: Option<usize>,
    pub(super) http1: bool,
    pub(super) http2: bool,
    pub(super) short: bool,
}

impl Wish {
    /// The plays of it, in their order.
    pub(super) fn plays(self) -> Result<Vec<Play>> {
        let scenarios: &[Which] = match &self.which {
            Which::All => &[Which::S1, Which::S2, Which::S3, Which::S4, Which::Fault, Which::Killed],
            one => std::slice::from_ref(one),
        };
        let mut plays = Vec::new();
        for &scenario in scenarios {
            let modes: &[Mode] = match scenario {
                Which::S1 => &[Mode::Current],
                Which::S2 | Which::Fault | Which::Killed => &[Mode::Improved],
                _ => &[Mode::Current, Mode::Improved],
            };
            // The short form plays over HTTP/2 what differs there most.
            let second = self.short && scenario == Which::S2;
            let http2: &[bool] = match (self.http1, self.http2) {
                (true, false) => &[false],
                (false, true) => &[true],
                (false, false) if !second => &[false],
                _ => &[false, true],
            };
            for &mode in modes.iter().filter(|mode| self.mode.is_none_or(|wanted| wanted == **mode)) {
                plays.extend(http2.iter().map(|&http2| self.play(scenario, mode, http2)));
            }
        }
        if plays.is_empty() {
            bail!(
                "s1 is the current mode, and s2, fault and killed are the improved one: leave --mode out, or take the other"
            );
        }
        for play in &plays {
            play.is_long_enough()?;
        }
        Ok(plays)
    }

    fn play(self, scenario: Which, mode: Mode, http2: bool) -> Play {
        let long = scenario == Which::S1 || scenario == Which::S2;
        let repeat = self.repeat.unwrap_or(if self.short && long { 3 } else { 1 });
        // Few would wait for the runbook's times again and again.
        let short = self.short || repeat > 1;
        let asked = Duration::from_secs(self.seconds.unwrap_or(match (short, scenario) {
            // Nobody waits for these to their end.
            (true, Which::Fault | Which::Killed) => 12,
            (true, _) => {
                if self.short {
                    2
                } else {
                    3
                }
            }
            (false, Which::S3 | Which::S4) => 20,
            (false, _) => 60,
        }));
        let mut timing = if short { Timing::short(asked) } else { Timing::runbook(asked) };
        match scenario {
            Which::Fault => timing.drain_timeout = asked / 4,
            Which::Killed => timing.grace = Duration::from_secs((asked.as_secs() / 4).max(1)),
            _ => {}
        }
        Play { scenario, mode, http2, repeat, timing }
    }
}

impl Mode {
    fn word(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Improved => "improved",
        }
    }
}

impl Play {
    /// How many pods are deleted, one after the other.
    pub(super) fn pods(&self) -> usize {
        if self.scenario == Which::S3 { 3 } else { 1 }
    }

    /// Whether the long requests are meant to be cut.
    pub(super) fn is_cut(&self) -> bool {
        self.mode == Mode::Current || matches!(self.scenario, Which::Fault | Which::Killed)
    }

    /// From a pod's deletion to the first sign of the cut, or to the end of the long requests.
    fn drained(&self) -> Duration {
        let Timing { asked, delete_after, drain_timeout, grace, .. } = self.timing;
        match (self.scenario, self.mode) {
            (Which::Fault, _) => drain_timeout,
            (Which::Killed, _) => grace,
            (_, Mode::Current) => Duration::ZERO,
            (_, Mode::Improved) => asked.saturating_sub(delete_after),
        }
    }

    /// About how long one round of it lasts.
    pub(super) fn planned(&self) -> Duration {
        let Timing { delete_after, inter, lb_buffer, .. } = self.timing;
        let one = delete_after + self.drained() + lb_buffer + inter + Duration::from_secs(2);
        // Besides, the verdict is told some time after.
        one * u32::try_from(self.pods()).unwrap_or(1) + Duration::from_secs(8)
    }

    /// Whether what is meant to be cut is still in flight when the cut comes.
    fn is_long_enough(&self) -> Result<()> {
        let Timing { asked, delete_after, inter, .. } = self.timing;
        // Two checks must fail, and the first may come as late as a third.
        let needed = delete_after + self.drained() + inter * 3;
        if self.is_cut() && asked <= needed {
            bail!(
                "{self}: a request of {} s would end before the load balancer cuts it, {} s after its begin: ask for more --seconds",
                asked.as_secs_f32(),
                needed.as_secs_f32()
            );
        }
        Ok(())
    }

    /// A name for directories and tests: `s1_current_http1`.
    pub(super) fn name(&self) -> String {
        let scenario = match self.scenario {
            Which::S1 => "s1",
            Which::S2 => "s2",
            Which::S3 => "s3",
            Which::S4 => "s4",
            Which::Fault => "fault",
            Which::Killed => "killed",
            Which::All => "all",
        };
        format!("{scenario}_{}_{}", self.mode.word(), if self.http2 { "http2" } else { "http1" })
    }
}

impl fmt::Display for Play {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name().replace('_', " "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WISH: Wish = Wish {
        which: Which::All,
        mode: None,
        seconds: None,
        repeat: None,
        http1: false,
        http2: false,
        short: false,
    };

    fn names(wish: Wish) -> Vec<String> {
        wish.plays().unwrap().iter().map(|play| format!("{} {}", play.name(), play.repeat)).collect()
    }

    /// Exercises what is asked for so that nothing is left out, and no mode is played in the other's scenario.
    #[test]
    fn plays_of_a_wish() {
        let all = [
            "s1_current_http1 1",
            "s2_improved_http1 1",
            "s3_current_http1 1",
            "s3_improved_http1 1",
            "s4_current_http1 1",
            "s4_improved_http1 1",
            "fault_improved_http1 1",
            "killed_improved_http1 1",
        ];
        assert_eq!(names(WISH), all);
        let short = names(Wish { short: true, ..WISH });
        assert_eq!(short[..3], ["s1_current_http1 3", "s2_improved_http1 3", "s2_improved_http2 3"]);
        assert_eq!(
            names(Wish {
                which: Which::S4,
                mode: Some(Mode::Improved),
                http2: true,
                repeat: Some(5),
                ..WISH
            }),
            ["s4_improved_http2 5"]
        );
        let both = Wish { which: Which::S1, http1: true, http2: true, ..WISH };
        assert_eq!(names(both), ["s1_current_http1 1", "s1_current_http2 1"]);
        assert!(Wish { which: Which::S1, mode: Some(Mode::Improved), ..WISH }.plays().is_err());
    }

    /// Exercises the runbook's rules so that a drain of the lab is ended by a time limit only where that is what is played.
    #[test]
    fn the_grace_period_outlasts_the_drain() {
        for short in [false, true] {
            for play in (Wish { short, ..WISH }).plays().unwrap() {
                let Timing { asked, inter, lb_buffer, drain_timeout, grace, .. } = play.timing;
                assert_eq!(drain_timeout > asked, play.scenario != Which::Fault, "{play}");
                assert_eq!(grace > drain_timeout + lb_buffer, play.scenario != Which::Killed, "{play}");
                assert_eq!(grace.subsec_nanos(), 0, "{play}");
                assert!(lb_buffer > inter * 3, "{play}");
                assert!(play.timing.delete_after + inter * 3 < asked, "{play}");
            }
        }
    }

    /// Exercises requests that are over before anybody cuts them so that they are refused and not played in vain.
    #[test]
    fn requests_that_are_too_short() {
        let wish = |which, seconds, short| Wish { which, seconds: Some(seconds), short, ..WISH };
        assert!(wish(Which::S1, 8, false).plays().is_err());
        assert!(wish(Which::S1, 9, false).plays().is_ok());
        assert!(wish(Which::S1, 2, true).plays().is_ok());
        assert!(wish(Which::S2, 2, false).plays().is_ok());
        assert!(wish(Which::Fault, 12, false).plays().is_err());
        assert!(wish(Which::Killed, 13, false).plays().is_ok());
    }
}
