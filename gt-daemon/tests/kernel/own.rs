//! gt's own connections inside a pod: they are nobody's, and no count has them.

use std::{
    fs::{self, File},
    io::{ErrorKind, Write as _},
    net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use gt_daemon::dial::{Address, Dialler, Target};

use crate::{
    Case, Skip,
    conversation::{abort, accept, arrived, ended, exchange},
    daemon::{Backend, Daemon, Shared},
    scene::{Family, Scene},
};

pub fn cases(backend: Backend, skip: Option<&String>) -> Vec<Case> {
    let skip: Skip = skip.cloned();
    let name = |test: &str| format!("{}::own::{test}", backend.name());
    vec![
        Case::new(name("dialled_by_gt"), skip.clone(), move || dialled(backend)),
        Case::new(name("open_when_gt_comes"), skip, move || adopted(backend)),
    ]
}

/// What a pod's connections and RSTs are counted by.
const COUNTS: [&str; 5] = [
    "gt_connections_opened_total",
    "gt_connections_adopted_total",
    "gt_connections_closed_total",
    "gt_active_connections",
    "gt_rst_total",
];

/// Dials as the daemon does, from outside.
async fn dial(scene: &Scene, port: u16) -> Result<TcpStream> {
    let netns = Some(Arc::new(File::open(scene.pod.path())?));
    let target = Target { pod: "test/pod".into(), netns, address: Address::default() };
    let stream = Dialler::new()?.connect(&target, port).await?.into_std()?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Ends of every kind: a close, an RST by the one who dialled, an RST by the other over bytes that it did not read, a
/// port nobody listens on.
fn converse(scene: &Scene, dial: impl Fn(u16) -> Result<TcpStream>, any: &str) -> Result<()> {
    let listener = scene.pod.enter(|| TcpListener::bind(format!("{any}:0")))??;
    let port = listener.local_addr()?.port();
    let both = || -> Result<_> { Ok((dial(port)?, accept(&listener)?)) };

    let (mut ours, mut pods) = both()?;
    exchange(&mut ours, &mut pods, b"GET / HTTP/1.1\r\n\r\n")?;
    exchange(&mut pods, &mut ours, b"HTTP/1.1 200 OK\r\n\r\n")?;
    drop(ours);
    ended(&pods)?;
    drop(pods);

    let (ours, pods) = both()?;
    abort(ours)?;
    let _reset = ended(&pods);
    drop(pods);

    let (mut ours, pods) = both()?;
    ours.write_all(b"unread")?;
    arrived(&pods)?;
    drop(pods);
    let _reset = ended(&ours);

    drop(listener);
    ensure!(dial(port).is_err(), "nobody listens on port {port}");
    Ok(())
}

/// gt dials ports of the pod on both kinds of listener, and nothing moves; then the pod dials itself, and all do.
fn dialled(backend: Backend) -> Result<()> {
    let scene = Scene::new(&Shared::of(backend)?, Family::V4)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Where IPv4 is refused gt tries ::1, and that has no address of gt's own (docs/limitations.md).
    scene.pod.enter(|| fs::write("/proc/sys/net/ipv6/conf/lo/disable_ipv6", "1"))??;
    for any in ["127.0.0.1", "0.0.0.0", "[::]"] {
        converse(&scene, |port| runtime.block_on(dial(&scene, port)), any)?;
    }
    // Counts of the kernel are there at once, and events 10 ms later.
    std::thread::sleep(Duration::from_millis(200));
    for count in COUNTS {
        let moved = scene.watched.count(count, &[])?;
        ensure!(moved == 0, "{count} is {moved} after gt's own connections on {}", scene.watched.name);
    }

    let itself = |port| -> Result<TcpStream> {
        let target = SocketAddr::from(([127, 0, 0, 1], port));
        scene.pod.enter(|| TcpStream::connect(target))?.map_err(Into::into)
    };
    converse(&scene, itself, "127.0.0.1")?;
    let loopback = [("role", "loopback")];
    scene.watched.expect("gt_connections_opened_total", &loopback, 6)?;
    scene.watched.expect("gt_connections_closed_total", &loopback, 6)?;
    let resets = scene.watched.count("gt_rst_total", &[])?;
    ensure!(resets >= 4, "only {resets} RSTs of the pod's own connections");
    refused(&scene, backend)
}

/// A port that nobody listens on, dialled from within the pod by IPv4, above, and now by IPv6, and a TIME_WAIT socket: their RSTs
/// are the loopback's, and no user's.
fn refused(scene: &Scene, backend: Backend) -> Result<()> {
    scene.pod.enter(|| fs::write("/proc/sys/net/ipv6/conf/lo/disable_ipv6", "0"))??;
    let dialled = scene.pod.enter(|| TcpStream::connect((Ipv6Addr::LOCALHOST, 9)))?;
    ensure!(
        dialled.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused),
        "[::1]:9 does not refuse"
    );
    scene.watched.expect("gt_rst_total", &[("role", "loopback"), ("reason", "refused")], 2)?;

    // Data for a socket that has closed, and is kept as a TIME_WAIT one.
    let listener = scene.pod.enter(|| TcpListener::bind("127.0.0.1:0"))??;
    let target = listener.local_addr()?;
    let mut late = scene.pod.enter(|| TcpStream::connect(target))??;
    drop(accept(&listener)?);
    ended(&late)?;
    xtask::sandbox::eventually("the pod's FIN to be acknowledged", Duration::from_secs(5), || {
        (!scene.has_fin_wait_1().ok()?).then_some(())
    })?;
    late.write_all(b"late")?;
    xtask::sandbox::eventually("the reset", Duration::from_secs(5), || late.take_error().ok().flatten())?;

    if backend.sees_no_socket() {
        for (reason, count) in [("no_socket", 2), ("time_wait", 1)] {
            scene.watched.expect("gt_rst_total", &[("role", "loopback"), ("reason", reason)], count)?;
        }
    }
    for role in ["inbound", "unknown"] {
        scene.watched.expect("gt_rst_total", &[("role", role)], 0)?;
    }
    Ok(())
}

/// A connection of gt's own that is there before the pod is watched is not taken in; the pod's own one beside it is.
fn adopted(backend: Backend) -> Result<()> {
    let scene = Scene::new(&Shared::of(backend)?, Family::V4)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = scene.pod.enter(|| TcpListener::bind("127.0.0.1:0"))??;
    let ours = runtime.block_on(dial(&scene, listener.local_addr()?.port()))?;
    let pods = accept(&listener)?;
    let target = listener.local_addr()?;
    let client = scene.pod.enter(|| TcpStream::connect(target))??;
    let server = accept(&listener)?;

    let directory = tempfile::tempdir()?;
    let file = directory.path().join("pods.toml");
    let netns = scene.pod.path();
    fs::write(&file, format!("[[pod]]\nnamespace='test'\nname='late'\nnetns={netns:?}\n"))?;
    let pods_file = format!("static:{}", file.display());
    let late = Daemon::start(&["--pods", &pods_file, "--attach", backend.name()])?;
    let count = |name| -> Result<u64> {
        late.metrics()?.sum(name, &[("pod", "late")]).with_context(|| format!("no {name}\n{}", late.log()))
    };
    xtask::sandbox::eventually("the pod's connection to be taken in", Duration::from_secs(10), || {
        (count("gt_connections_adopted_total").ok()? >= 2).then_some(())
    })?;
    ensure!(count("gt_connections_adopted_total")? == 2, "gt's own connection is taken in");
    drop((ours, pods));
    std::thread::sleep(Duration::from_millis(200));
    ensure!(count("gt_active_connections")? == 2, "the pod's own connection is not in the table");
    ensure!(count("gt_connections_closed_total")? == 0, "the end of gt's own connection is counted");
    drop((client, server));
    Ok(())
}
