use std::{env, fs, path::PathBuf};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use proptest::prelude::*;
use ratatui::{Terminal, backend::TestBackend};

use super::*;
use crate::console::{any, keys, model::Incoming, replay::Recorded};

const PLAIN: Look = Look { colour: false, unicode: true };
const IN_COLOUR: Look = Look { colour: true, unicode: true };
const ASCII: Look = Look { colour: false, unicode: false };

fn testdata(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

/// A model of the first messages of a recording, and all there are.
fn recorded(name: &str, most: usize) -> Model {
    let mut recorded = Recorded::open(&testdata(name)).unwrap();
    let mut model = Model::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for _ in 0..most {
        let Some(incoming) = runtime.block_on(recorded.next()) else {
            model.over();
            break;
        };
        model.apply(incoming, model.newest.unwrap_or(0));
    }
    model
}

fn scene<'a>(view: &'a View, live: &'a Model, look: Look) -> Scene<'a> {
    Scene { view, live, now: live.newest.unwrap_or(0), look }
}

/// The screen as text.
fn screen(scene: Scene<'_>, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(scene, frame.area(), frame.buffer_mut())).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y: u16| {
        let row: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        row.trim_end().to_owned() + "\n"
    };
    (0..height).map(row).collect()
}

/// Compares a screen with the one that is kept; with `GT_BLESS=1` it is kept from then on.
fn golden(name: &str, is: &str) {
    let path = testdata("console").join(format!("{name}.txt"));
    if env::var_os("GT_BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, is).unwrap();
    }
    let was = fs::read_to_string(&path).unwrap_or_default();
    assert!(was == is, "{name} was\n{was}\nand is\n{is}\nGT_BLESS=1 keeps it");
}

fn pod(name: &str) -> Key {
    Key { namespace: "istio-system".to_owned(), name: format!("istio-ingressgateway-6d8f9c7b5-{name}") }
}

fn press(view: &mut View, model: &Model, code: KeyCode) {
    let (now, window) = (scene(view, model, PLAIN).at(), scene(view, model, PLAIN).window());
    keys::press(view, model, KeyEvent::new(code, KeyModifiers::NONE), now, window);
}

/// Exercises a real drain that was broken, while it goes on and after it, and a protected one, at both sizes, so that what is
/// shown changes only when somebody wants it to.
#[test]
fn drains() {
    for (name, key, most) in [
        ("broken", "00002", usize::MAX),
        ("broken", "00002", 17),
        ("protected", "00008", usize::MAX),
        ("inconclusive", "00001", usize::MAX),
    ] {
        let model = recorded(&format!("drains/{name}"), most);
        let view = View::new(Some(pod(key)));
        let when = if most == usize::MAX { "over" } else { "goes-on" };
        for (width, height) in [(80, 24), (160, 48)] {
            let is = screen(scene(&view, &model, PLAIN), width, height);
            golden(&format!("{name}-{when}-{width}x{height}"), &is);
        }
    }
}

/// Exercises docs/console.md, so that its screen is what is shown and its keys are those that there are.
#[test]
fn documented() {
    let page = include_str!("../../../../docs/console.md");
    let model = recorded("drains/broken", usize::MAX);
    let shown = screen(scene(&View::new(Some(pod("00002"))), &model, PLAIN), 80, 24);
    assert!(page.contains(&shown), "docs/console.md has another screen than\n{shown}");
    for (key, what) in keys::HELP {
        let row = format!("| {key} | {what} |");
        assert!(page.contains(&row), "docs/console.md has no row {row}");
    }
}

/// Exercises pods of a whole node, one of which restarts and one has neither sidecar nor proxy, and a stream with gaps.
#[test]
fn fleet() {
    let model = recorded("drains/fleet.jsonl", usize::MAX);
    let table = View::new(None);
    let restarted = View::new(Some(Key { namespace: "edge".to_owned(), name: "gw-0".to_owned() }));
    let with_lb = View::new(Some(pod("00002")));
    for (width, height) in [(80, 24), (160, 48)] {
        for (name, view) in [("table", &table), ("restarted", &restarted), ("with-lb", &with_lb)] {
            golden(&format!("{name}-{width}x{height}"), &screen(scene(view, &model, PLAIN), width, height));
        }
    }
    golden("with-lb-ascii-80x24", &screen(scene(&with_lb, &model, ASCII), 80, 24));
}

/// Exercises help, a filter while it is written and after it, kinds that are left out, and scrolling.
#[test]
fn what_a_person_does() {
    let model = recorded("drains/broken", usize::MAX);
    let mut view = View::new(Some(pod("00002")));
    press(&mut view, &model, KeyCode::Char('?'));
    golden("help-80x24", &screen(scene(&view, &model, PLAIN), 80, 24));
    press(&mut view, &model, KeyCode::Esc);
    for code in ["/", "r", "s", "t"].map(|text| KeyCode::Char(text.chars().next().unwrap())) {
        press(&mut view, &model, code);
    }
    let writing = screen(scene(&view, &model, PLAIN), 80, 24);
    assert!(writing.contains("show only lines with: rst_"), "{writing}");
    press(&mut view, &model, KeyCode::Enter);
    let filtered = screen(scene(&view, &model, PLAIN), 80, 48);
    assert!(filtered.contains("rst_received no cut") && !filtered.contains(" requests in"), "{filtered}");
    press(&mut view, &model, KeyCode::Esc);
    press(&mut view, &model, KeyCode::Char('3'));
    press(&mut view, &model, KeyCode::Home);
    golden("oldest-without-requests-80x24", &screen(scene(&view, &model, PLAIN), 80, 24));
}

/// Exercises a pause, so that nothing moves on the screen, and all of it is there afterwards.
#[test]
fn pause() {
    let half = recorded("drains/broken", 17);
    let all = recorded("drains/broken", usize::MAX);
    let mut view = View::new(Some(pod("00002")));
    press(&mut view, &half, KeyCode::Char(' '));
    let body = |text: String| text.lines().take(23).collect::<Vec<_>>().join("\n");
    let paused = body(screen(scene(&view, &half, PLAIN), 80, 24));
    assert!(paused.contains("PAUSED"), "{paused}");
    let later = screen(scene(&view, &all, PLAIN), 80, 24);
    assert!(later.contains("PAUSED: 23 messages since then are kept, and the stream is over"), "{later}");
    assert_eq!(body(later), paused);
    press(&mut view, &all, KeyCode::Char(' '));
    assert_eq!(
        screen(scene(&view, &all, PLAIN), 80, 24),
        screen(scene(&View::new(Some(pod("00002"))), &all, PLAIN), 80, 24)
    );
}

/// Exercises every size from nothing to a small window, on every page.
#[test]
fn tiny() {
    let model = recorded("drains/fleet.jsonl", usize::MAX);
    let mut help = View::new(None);
    help.is_help = true;
    for view in [View::new(None), View::new(Some(pod("00002"))), help] {
        for (width, height) in (0..=24).flat_map(|width| (0..=16).map(move |height| (width, height))) {
            screen(scene(&view, &model, IN_COLOUR), width, height);
        }
        assert!(screen(scene(&view, &model, PLAIN), 20, 5).trim().len() > 10);
    }
}

/// Exercises colours, so that without them the same is said, and with them nothing but the style differs.
#[test]
fn colours() {
    let model = recorded("drains/broken", usize::MAX);
    let view = View::new(Some(pod("00002")));
    let styles = |look: Look| {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(scene(&view, &model, look), frame.area(), frame.buffer_mut())).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let has = buffer
            .content
            .iter()
            .any(|cell| cell.fg != ratatui::style::Color::Reset || cell.bg != ratatui::style::Color::Reset);
        (has, buffer.content.iter().map(|cell| cell.symbol().to_owned()).collect::<String>())
    };
    let ((with, coloured), (without, plain)) = (styles(IN_COLOUR), styles(PLAIN));
    assert!(with && !without);
    assert_eq!(coloured, plain);
}

fn any_key() -> impl Strategy<Value = KeyCode> {
    let letters = " qhkj/1234567890a+-?gG".chars().map(KeyCode::Char);
    let others = [
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::Backspace,
    ];
    prop::sample::select(letters.chain(others).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Exercises any messages in any order, with keys in between and at any size and time, so that nothing panics.
    #[test]
    fn anything(
        steps in prop::collection::vec((any::incoming(), proptest::option::of(any_key())), 0..40),
        width in 0_u16..200,
        height in 0_u16..60,
        now in proptest::num::i64::ANY,
        looks in (any::<bool>(), any::<bool>()),
    ) {
        let mut model = Model::default();
        let mut view = View::new(None);
        let look = Look { colour: looks.0, unicode: looks.1 };
        for (incoming, key) in steps {
            let incoming: Incoming = incoming;
            model.apply(incoming, now);
            if let Some(key) = key {
                press(&mut view, &model, key);
            }
            screen(Scene { view: &view, live: &model, now, look }, width, height);
        }
    }
}
