//! A pod that is destroyed with everything in it: its process, its network, its connections as they are.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use xtask::sandbox::{Process, eventually, remove_device};

use crate::{
    child,
    conversations::pair::{ANSWER, REQUEST},
    daemon::{Backend, Shared, WatchedPod},
    scene::{DEVICE, Family, Scene},
};

/// Connections of each kind.
const EACH: usize = 10;

/// A server in the pod that answers what asks for `/answered` and else nothing.
fn server(scene: &Scene) -> Result<(Process, u16)> {
    let mut command = child::hold(&scene.pod, "0.0.0.0:0")?;
    let mut process = Process::start("a server in the pod", command.stdout(Stdio::piped()))?;
    let said = process.child().stdout.take().context("the server has no output")?;
    let mut line = String::new();
    BufReader::new(said).read_line(&mut line)?;
    let address = line.trim().strip_prefix(child::LISTENING).with_context(|| format!("it said {line:?}"))?;
    Ok((process, address.parse::<std::net::SocketAddr>()?.port()))
}

/// Users: so many that have their answer, and as many that wait for it.
fn users(scene: &Scene, port: u16) -> Result<Vec<TcpStream>> {
    let mut users = Vec::new();
    for number in 0..2 * EACH {
        let mut user = scene.dial_pod(port)??;
        user.set_read_timeout(Some(Duration::from_secs(10)))?;
        if number < EACH {
            user.write_all(b"GET /answered HTTP/1.1\r\nhost: gt\r\n\r\n")?;
            user.read_exact(&mut vec![0; ANSWER.len()])?;
        } else {
            user.write_all(REQUEST)?;
        }
        users.push(user);
    }
    Ok(users)
}

/// All that is open is closed, as many as came went, and each request that waited is a cut.
fn is_settled(pod: &WatchedPod, connections: u64, cuts: u64) -> Result<()> {
    let mut last = String::new();
    eventually("the counts", Duration::from_secs(30), || {
        let count = |metric: &str| pod.count(metric, &[("class", "data")]).ok();
        let counts = [
            "active_connections",
            "closing_connections",
            "connections_opened_total",
            "connections_closed_total",
        ]
        .map(|metric| count(&format!("gt_{metric}")));
        let cut = pod.find("gt_inflight_cuts_total", &[]).ok()?;
        last = format!(
            "active, closing, opened, closed: {counts:?}, cut: {cut:?}, not 0, 0, {connections} twice, {cuts}"
        );
        (counts == [Some(0), Some(0), Some(connections), Some(connections)] && cut == Some(cuts))
            .then_some(())
    })
    .with_context(|| format!("{last}\n{}", pod.daemon().log()))
}

/// Exercises a pod whose process is killed with connections open; then one that is killed when nothing reaches its users any more, and
/// whose namespace is removed at once, so that the kernel keeps its half-closed sockets until it gives them up; then a namespace that
/// is removed while sockets in it go on. Each time gauges return to zero, and what was in flight is cut.
pub(super) fn destroyed(backend: Backend) -> Result<()> {
    let daemon = Arc::new(Shared::start(backend, &["--retain", "600"])?);
    let scene = Scene::with(&daemon, Family::V4, "protocol = \"http1\"")?;
    // How long the kernel tries to reach users of sockets that nobody holds: a second and not a minute.
    scene.pod.enter(|| fs::write("/proc/sys/net/ipv4/tcp_orphan_retries", "1"))??;
    let each = u64::try_from(EACH)?;
    let serves = |pod: &WatchedPod, known: u64| -> Result<(Process, Vec<TcpStream>)> {
        let (process, port) = server(&scene)?;
        let users = users(&scene, port)?;
        pod.expect("gt_active_connections", &[("class", "data")], 2 * each)?;
        pod.expect("gt_connections_opened_total", &[("class", "data")], known + 2 * each)?;
        Ok((process, users))
    };
    let (process, users) = serves(&scene.watched, 0)?;
    process.signal(Signal::SIGKILL)?;
    for mut user in users {
        // Its end, by FIN or RST.
        let _ended = user.read(&mut [0; 64]);
    }
    is_settled(&scene.watched, 2 * each, each)?;

    let (process, users) = serves(&scene.watched, 2 * each)?;
    remove_device(&scene.pod, DEVICE)?;
    process.signal(Signal::SIGKILL)?;
    // By now nobody holds its sockets but the kernel.
    drop(process);
    let Scene { watched, pod, peer, .. } = scene;
    drop(pod);
    is_settled(&watched, 4 * each, 2 * each)?;
    drop((users, peer));
    for place in ["ring", "kernel_read", "connection_table", "teardown", "observe"] {
        let lost = watched.daemon().metrics()?.sum("gt_events_lost_total", &[("where", place)]);
        ensure!(lost.is_none_or(|lost| lost == 0), "lost at {place}: {lost:?}");
    }
    removed(&daemon)
}

/// A namespace without a name is one as long as sockets are in it: they are counted to their ends.
fn removed(daemon: &Arc<Shared>) -> Result<()> {
    let scene = Scene::with(daemon, Family::V4, "protocol = \"http1\"")?;
    let listener = scene.listen_in_pod()?;
    let port = listener.local_addr()?.port();
    let mut open = Vec::new();
    for _ in 0..EACH {
        let peer = scene.dial_pod(port)??;
        open.push((crate::conversation::accept(&listener)?, peer));
    }
    let each = u64::try_from(EACH)?;
    scene.watched.expect("gt_active_connections", &[("class", "data")], each)?;
    let Scene { watched, pod, peer, .. } = scene;
    drop(pod);
    // Long enough for the daemon to look at its pods again.
    std::thread::sleep(Duration::from_secs(2));
    for (mut inner, mut user) in open {
        crate::conversation::exchange(&mut user, &mut inner, REQUEST)?;
        drop(user);
        drop(inner);
    }
    drop(listener);
    is_settled(&watched, each, each)?;
    drop(peer);
    Ok(())
}
