//! The service behind the gateway: it answers at once, after a while, when told to, or bit by bit.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::serve::{Body, GoesOn, Request, Response, serve};

/// The longest time that may be asked for.
const LONGEST: Duration = Duration::from_secs(3600);

/// What can be asked for.
const HELP: &str = "ask for /, /sleep?seconds=N, /sleep?ms=N, /hold, /held or /stream?every=N (&ms=N), each with &close to end the \
     connection, or POST /release\n";

/// Where to listen.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Address and port to listen on.
    #[arg(long, default_value = "127.0.0.1:9000")]
    listen: String,
}

/// Answers until killed:
///
/// - `GET /`: at once;
/// - `GET /sleep?seconds=N`, `GET /sleep?ms=N`: after that time;
/// - `GET /hold`: when somebody asks for `POST /release`;
/// - `GET /held`: at once, with the number of requests that are held now;
/// - `GET /stream?every=M&ms=N`: a line every M ms, for N ms; without `ms`, until somebody asks for `POST /release`.
pub fn run(options: &Options) -> Result<()> {
    listen(&options.listen)
}

/// The same, on an address.
pub fn listen(address: &str) -> Result<()> {
    let gate = Arc::new(Gate::default());
    serve(address, move |request| answer(request, &gate))
}

fn answer(request: &Request, gate: &Arc<Gate>) -> Response {
    let mut response = match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/") => Response::new(200, "hello\n"),
        ("GET", "/sleep") => {
            match time(&request.query, "seconds", 1000).or_else(|| time(&request.query, "ms", 1)) {
                Some(length) => {
                    thread::sleep(length);
                    Response::new(200, format!("slept {} s\n", length.as_secs_f32()))
                }
                None => Response::new(
                    400,
                    format!("a time is missing, or longer than {} s: {HELP}", LONGEST.as_secs()),
                ),
            }
        }
        ("GET", "/hold") => {
            gate.hold();
            Response::new(200, "released\n")
        }
        ("GET", "/held") => Response::new(200, format!("{}\n", gate.inside().held)),
        ("POST", "/release") => Response::new(200, format!("{}\n", gate.release())),
        ("GET", "/stream") => match time(&request.query, "every", 1) {
            Some(every) if !every.is_zero() => {
                let goes_on: Box<dyn Fn(Duration) -> bool> = match time(&request.query, "ms", 1) {
                    Some(length) => Box::new(move |passed| passed < length),
                    None => {
                        let (gate, before) = (Arc::clone(gate), gate.inside().openings);
                        Box::new(move |passed| passed < LONGEST && gate.inside().openings == before)
                    }
                };
                let body = Body::Chunks { every, goes_on: GoesOn(goes_on) };
                Response { status: 200, body, close: false }
            }
            _ => Response::new(400, HELP),
        },
        _ => Response::new(404, HELP),
    };
    response.close = request.query.split('&').any(|part| part == "close");
    response
}

/// A number of the query, in units of so many milliseconds.
fn time(query: &str, name: &str, unit_ms: u64) -> Option<Duration> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    let length = Duration::from_millis(value.parse::<u64>().ok()?.checked_mul(unit_ms)?);
    Some(length).filter(|length| *length <= LONGEST)
}

/// What holds requests until it is opened for those that wait.
#[derive(Debug, Default)]
struct Gate {
    inside: Mutex<Inside>,
    opened: Condvar,
}

#[derive(Debug, Default)]
struct Inside {
    held: usize,
    openings: u64,
}

impl Gate {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold(&self) {
        let until = Instant::now() + LONGEST;
        let mut inside = self.inside();
        inside.held += 1;
        let before = inside.openings;
        while inside.openings == before
            && let Some(left) = until.checked_duration_since(Instant::now())
        {
            inside = self.opened.wait_timeout(inside, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        inside.held -= 1;
    }

    /// Lets those go that wait; gives their number.
    fn release(&self) -> usize {
        let mut inside = self.inside();
        inside.openings += 1;
        self.opened.notify_all();
        inside.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises odd queries so that a typing error is answered and never slept on.
    #[test]
    fn times_of_a_query() {
        assert_eq!(time("seconds=8", "seconds", 1000), Some(Duration::from_secs(8)));
        assert_eq!(time("a=b&ms=0", "ms", 1), Some(Duration::ZERO));
        for wrong in ["", "ms", "ms=", "ms=-1", "ms=3600001", "s=8", "ms=18446744073709551615"] {
            assert_eq!(time(wrong, "ms", 1000), None, "{wrong}");
        }
    }

    /// Exercises the gate so that one opening lets all go that wait, and nobody who comes later.
    #[test]
    fn a_gate_lets_those_go_that_wait() {
        let gate = Gate::default();
        thread::scope(|scope| {
            let held = |count| {
                while gate.inside().held != count {
                    thread::yield_now();
                }
            };
            let first = [scope.spawn(|| gate.hold()), scope.spawn(|| gate.hold())];
            held(2);
            assert_eq!(gate.release(), 2);
            first.into_iter().for_each(|waited| waited.join().unwrap());
            let late = scope.spawn(|| gate.hold());
            held(1);
            assert!(!late.is_finished());
            assert_eq!(gate.release(), 1);
        });
    }
}
