//! Whose socket is it: by cgroup, by namespace, and not anybody else's.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use xtask::sandbox::{Cgroup, Netns, Process, cgroup2_root, eventually, run};

use crate::{
    Case, Skip, child,
    daemon::{Backend, Daemon, Shared},
    scene::{Family, Scene},
};

pub fn cases(backend: Backend, skip: Option<&String>) -> Vec<Case> {
    let skip: Skip = skip.cloned();
    let unified = || {
        skip.clone().or_else(|| {
            (!Path::new("/sys/fs/cgroup/cgroup.controllers").exists()).then(|| {
                "the cgroups of this machine are not unified: sockets are told apart by namespace only"
                    .to_owned()
            })
        })
    };
    let name = |test: &str| format!("{}::owners::{test}", backend.name());
    vec![
        Case::new(name("a_cgroup_in_the_hosts_namespace"), unified(), move || by_cgroup(backend)),
        Case::new(name("another_namespace_is_not_ours"), skip.clone(), move || by_namespace(backend)),
        Case::new(name("a_pod_as_the_kubelet_makes_it"), skip.clone(), move || kubelet(backend)),
        Case::new(name("a_namespace_made_anew"), skip.clone(), move || made_anew(backend)),
        Case::new(name("a_runtime_in_the_hosts_namespace"), skip.clone(), move || runtime_first(backend)),
        Case::new(name("a_uid_replaced_in_the_same_namespace"), skip.clone(), move || replaced(backend)),
        Case::new(name("two_pods_in_one_namespace"), skip.clone(), move || shared_namespace(backend)),
        Case::new(name("nothing_found_is_not_zero"), skip, move || nothing_found(backend)),
    ]
}

/// Two "pods" in the host's network, told apart by their cgroups alone; one lives in a scope that is made
/// after the daemon has looked.
fn by_cgroup(backend: Backend) -> Result<()> {
    let shared = Shared::of(backend)?;
    let root = cgroup2_root()?;
    let first = Cgroup::create(&root, "gt-test/one")?;
    let second = Cgroup::create(&root, "gt-test/two")?;
    let one = shared.watch("cgroup-one", "cgroup = \"gt-test/one\"")?;
    let two = shared.watch("cgroup-two", "cgroup = \"gt-test/two\"")?;
    let scope = Cgroup::create(&root, "gt-test/two/late.scope")?;
    run(&mut child::command(&first, None, 3)?)?;
    run(&mut child::command(&scope, None, 5)?)?;
    drop(second);
    for (pod, resets) in [(&one, 3), (&two, 5)] {
        pod.expect("gt_rst_total", &[("direction", "sent")], resets)?;
        pod.expect("gt_rst_total", &[("direction", "received")], resets)?;
        // Both ends are the pod's.
        pod.expect("gt_connections_opened_total", &[], 2 * resets)?;
        pod.expect("gt_connections_closed_total", &[], 2 * resets)?;
    }
    Ok(())
}

/// What happens in one pod's namespace is not counted for another pod, nor for the host.
fn by_namespace(backend: Backend) -> Result<()> {
    let shared = Shared::of(backend)?;
    let scene = Scene::new(&shared, Family::V4)?;
    let bystander = Netns::create(&format!("gt-test-{}-by", std::process::id()))?;
    let by = shared.watch("bystander", &format!("netns = \"{}\"", bystander.path().display()))?;
    let port = scene.listen_in_pod()?.local_addr()?.port();
    ensure!(scene.dial_pod(port)?.is_err(), "nobody listens");
    let listener = scene.listen_in_pod()?;
    let peer = scene.dial_pod(listener.local_addr()?.port())??;
    drop(crate::conversation::accept(&listener)?);
    drop(peer);
    scene.watched.expect("gt_connections_opened_total", &[], 1)?;
    scene.watched.expect("gt_connections_closed_total", &[], 1)?;
    by.expect("gt_connections_opened_total", &[], 0)?;
    by.expect("gt_rst_total", &[], 0)
}

/// Log directories, cgroups and a process in the pod's namespace, as a kubelet leaves them: the daemon finds
/// the pod by itself, counts what it does, and forgets it when it is gone.
fn kubelet(backend: Backend) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let logs = directory.path().join("pods");
    let uid = "8ba3b3c8-6cb5-4d4f-9c3e-2a8f1a7d7f10";
    let log = logs.join(format!("service-a_igw-1_{uid}"));
    fs::create_dir_all(&logs)?;
    let pods = format!("kubelet:{}", logs.display());
    // No hc answers here, and each refused question would be two RSTs.
    let more = ["--retain", "1", "--hc-container", ""];
    let daemon = Daemon::start(&[&["--pods", &pods, "--attach", backend.name()], &more[..]].concat())?;

    let netns = Netns::create(&format!("gt-test-{}-kubelet", std::process::id()))?;
    let root = cgroup2_root()?;
    let cgroup = Cgroup::create(&root, &format!("kubepods/burstable/pod{uid}/{}", "ab".repeat(32)))?;
    let pause = Process::start("pause", netns.command("sleep").arg("60"))?;
    cgroup.add(pause.id())?;
    fs::create_dir_all(log.join("hc"))?;
    fs::create_dir_all(logs.join("service-a_no-gateway_00000000-0000-0000-0000-000000000000/app"))?;
    let labels = [("namespace", "service-a"), ("pod", "igw-1")];
    let count = |metric: &str| daemon.metrics().ok().and_then(|metrics| metrics.sum(metric, &labels));
    eventually("the pod's series", Duration::from_secs(10), || count("gt_connections_opened_total"))?;
    eventually("the pod's namespace", Duration::from_secs(10), || {
        daemon.log().contains("network namespace found").then_some(())
    })
    .with_context(|| daemon.log())?;
    ensure!(!daemon.log().contains("no-gateway"), "a pod without an hc container is not watched");

    run(&mut child::command(&cgroup, Some(&netns), 2)?)?;
    eventually("the pod's resets", Duration::from_secs(5), || {
        (count("gt_rst_total") == Some(4) && count("gt_connections_closed_total") == Some(4)).then_some(())
    })
    .with_context(|| format!("{:?}\n{}", daemon.metrics(), daemon.log()))?;

    fs::remove_dir_all(&log)?;
    ensure!(count("gt_rst_total") == Some(4), "a pod that has just gone keeps its series");
    eventually("the series to go", Duration::from_secs(10), || count("gt_rst_total").is_none().then_some(()))
}

/// A sandbox that is made anew under the same UID: the pod's counts go on.
fn made_anew(backend: Backend) -> Result<()> {
    let shared = Shared::of(backend)?;
    let name = format!("gt-test-{}-anew", std::process::id());
    let first = Netns::create(&name)?;
    let pod = shared.watch("made-anew", &format!("netns = \"{}\"", first.path().display()))?;
    drop(first);
    let second = Netns::create(&name)?;
    eventually("the new namespace to be seen", Duration::from_secs(10), || {
        (shared.daemon.log().matches("network namespace found pod=\"made-anew\"").count() == 2).then_some(())
    })
    .with_context(|| shared.daemon.log())?;
    refuse(&second, 3)?;
    pod.expect("gt_rst_total", &[("reason", "refused")], 3)
}

/// Makes so many connections to a port nobody listens on, inside a namespace.
fn refuse(netns: &Netns, times: u32) -> Result<()> {
    netns.enter(|| -> Result<()> {
        let target = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        for _ in 0..times {
            ensure!(std::net::TcpStream::connect(target).is_err(), "nobody listens");
        }
        Ok(())
    })?
}

/// A runtime's process is in the pod's cgroup before it enters the pod's namespace: the pod is not taken for
/// one of the host's network.
fn runtime_first(backend: Backend) -> Result<()> {
    let shared = Shared::of(backend)?;
    let root = cgroup2_root()?;
    let cgroup = Cgroup::create(&root, "gt-test/runtime-first")?;
    let runtime = Process::start("runtime", std::process::Command::new("sleep").arg("60"))?;
    cgroup.add(runtime.id())?;
    let watch = shared.watch_unattributed("runtime-first", "cgroup = \"gt-test/runtime-first\"")?;
    std::thread::sleep(Duration::from_millis(1200));
    let netns = Netns::create(&format!("gt-test-{}-runtime", std::process::id()))?;
    let server = Process::start("server", netns.command("sleep").arg("60"))?;
    cgroup.add(server.id())?;
    eventually("the pod's namespace", Duration::from_secs(10), || {
        shared.daemon.log().contains("network namespace found pod=\"runtime-first\"").then_some(())
    })
    .with_context(|| shared.daemon.log())?;
    refuse(&netns, 2)?;
    watch.expect("gt_rst_total", &[("reason", "refused")], 2)
}

/// Another UID in the same namespace: forgetting the old one does not blind the new one.
fn replaced(backend: Backend) -> Result<()> {
    let shared = Shared::of(backend)?;
    let netns = Netns::create(&format!("gt-test-{}-replaced", std::process::id()))?;
    let place = format!("netns = \"{}\"", netns.path().display());
    let old = shared.watch("replaced", &format!("{place}\nuid = \"one\""))?;
    refuse(&netns, 4)?;
    old.expect("gt_rst_total", &[("reason", "refused")], 4)?;
    let new = shared.watch("replaced", &format!("{place}\nuid = \"two\""))?;
    eventually("the old one to be forgotten", Duration::from_secs(10), || {
        shared.daemon.log().contains("pod forgotten pod=\"replaced\"").then_some(())
    })
    .with_context(|| shared.daemon.log())?;
    // The name lives on, and so does what was counted under it.
    new.expect("gt_rst_total", &[("reason", "refused")], 4)?;
    refuse(&netns, 2)?;
    new.expect("gt_rst_total", &[("reason", "refused")], 6)
}

/// A pod whose sockets are not found has no series, and is told among the pods.
fn nothing_found(backend: Backend) -> Result<()> {
    let shared = Shared::of(backend)?;
    let lost = shared.watch_unattributed("nothing-found", "netns = \"/etc/passwd\"")?;
    eventually("the pod to be told", Duration::from_secs(10), || {
        shared.daemon.metrics().ok()?.sum("gt_pods", &[("state", "unattributed")]).filter(|count| *count == 1)
    })?;
    ensure!(lost.find("gt_connections_opened_total", &[])?.is_none(), "unknown is not zero");
    Ok(())
}

/// Two pods that name the same namespace: the first keeps it, the second is told and has no series.
fn shared_namespace(backend: Backend) -> Result<()> {
    let shared = Shared::of(backend)?;
    let netns = Netns::create(&format!("gt-test-{}-shared", std::process::id()))?;
    let place = format!("netns = \"{}\"", netns.path().display());
    let first = shared.watch("shared-first", &place)?;
    let second = shared.watch_unattributed("shared-second", &place)?;
    refuse(&netns, 3)?;
    first.expect("gt_rst_total", &[("reason", "refused")], 3)?;
    ensure!(second.find("gt_rst_total", &[])?.is_none(), "the second pod counts too");
    ensure!(
        shared.daemon.log().matches("test/shared-first has it").count() == 1,
        "told not once:\n{}",
        shared.daemon.log()
    );
    drop(second);
    std::thread::sleep(Duration::from_millis(1200));
    refuse(&netns, 2)?;
    first.expect("gt_rst_total", &[("reason", "refused")], 5)
}
