//! Paths as machines have them (testdata), and properties of any path.

use proptest::prelude::*;
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PathRow {
    from: String,
    path: String,
    pods: Vec<String>,
    container: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProcessRow {
    from: String,
    file: String,
    lines: usize,
    #[serde(default)]
    deleted: bool,
    pods: Vec<String>,
    container: Option<String>,
}

#[derive(Deserialize)]
struct Paths {
    path: Vec<PathRow>,
}

#[derive(Deserialize)]
struct Processes {
    process: Vec<ProcessRow>,
}

/// A pod as the tables write it.
fn written(pod: &InPod) -> String {
    let qos = match pod.qos {
        Some(Qos::Guaranteed) => "guaranteed",
        Some(Qos::Burstable) => "burstable",
        Some(Qos::BestEffort) => "besteffort",
        None => "unknown",
    };
    let part = match &pod.part {
        Part::Pod => "pod".to_owned(),
        Part::Container(id) => format!("container {id}"),
        Part::BelowContainer(id) => format!("below {id}"),
        Part::Helper => "helper".to_owned(),
    };
    format!("{} {qos} {part}", pod.uid)
}

/// Exercises every layout known, so that the pod and the container are the right ones on machines as they
/// are.
#[test]
fn paths_of_machines() {
    let Paths { path } = toml::from_str(include_str!("../../../testdata/cgroup_paths.toml")).unwrap();
    assert!(path.len() >= 40, "{} rows", path.len());
    for PathRow { from, path, pods, container } in path {
        let place = CgroupPath::parse(&path);
        assert_eq!(place.pods.iter().map(written).collect::<Vec<_>>(), pods, "{from}: {path}");
        assert_eq!(place.container, container, "{from}: {path}");
        for pod in &place.pods {
            let own = path.split('/').skip(1).take(pod.depth).collect::<Vec<_>>().join("/");
            let own = CgroupPath::parse(&format!("/{own}"));
            let last = own.pods.last().unwrap();
            assert_eq!((&last.uid, last.depth), (&pod.uid, pod.depth), "{from}: the pod's own directory");
        }
    }
}

/// Exercises files of v1, v2 and hybrid hosts and of private namespaces, so that the line that tells most
/// wins.
#[test]
fn files_of_processes() {
    let Processes { process } =
        toml::from_str(include_str!("../../../testdata/cgroup_processes.toml")).unwrap();
    for row in process {
        let file = ProcCgroup::parse(row.file.as_bytes());
        assert_eq!(file.memberships.len(), row.lines, "{}", row.from);
        assert_eq!(file.memberships.iter().any(|line| line.deleted), row.deleted, "{}", row.from);
        let place = file.place();
        assert_eq!(place.pods.iter().map(written).collect::<Vec<_>>(), row.pods, "{}", row.from);
        assert_eq!(place.container, row.container, "{}", row.from);
    }
}

/// Exercises the fields of a line, so that colons in a path, several controllers and a name that only looks
/// deleted are kept.
#[test]
fn fields_of_a_line() {
    let file =
        ProcCgroup::parse(b"4:cpu,cpuacct:/a:b (deleted)\n1:name=systemd:/\n0::/c (deleted)\n9:\xff:/d");
    let lines: Vec<_> = file
        .memberships
        .iter()
        .map(|line| (line.hierarchy, line.controllers.join("+"), line.path.as_str(), line.is_unified()))
        .collect();
    assert_eq!(
        lines,
        [
            (4, "cpu+cpuacct".to_owned(), "/a:b (deleted)", false),
            (1, "name=systemd".to_owned(), "/", false),
            (0, String::new(), "/c", true),
            (9, "\u{fffd}".to_owned(), "/d", false),
        ]
    );
}

/// Exercises who gets a cgroup in nested pods, so that a daemon takes the pods of its own node.
#[test]
fn nested_nodes() {
    let (outer, inner) = ("a".repeat(32), "b".repeat(32));
    let id = "c".repeat(64);
    let path = format!("/kubepods/pod{outer}/{id}/kubelet/kubepods/burstable/pod{inner}/{id}");
    let place = CgroupPath::parse(&path);
    let owner = |watched: &[&str]| place.owner(|uid| watched.contains(&uid)).map(|pod| pod.uid.clone());
    assert_eq!(owner(&[&outer]), Some(outer.clone()), "a daemon on the outer node");
    assert_eq!(owner(&[&inner]), Some(inner.clone()), "a daemon on the inner node");
    assert_eq!(owner(&[&inner, &outer]), Some(outer.clone()), "a container takes no other pod's name");
    assert_eq!(owner(&[]), None);
    let again = format!("{path}/kubepods/pod{outer}");
    assert_eq!(CgroupPath::parse(&again).pods.len(), 2, "no UID twice");
}

fn uid() -> impl Strategy<Value = String> {
    prop_oneof!["[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "[0-9a-f]{32}"]
}

fn qos() -> impl Strategy<Value = Qos> {
    prop_oneof![Just(Qos::Guaranteed), Just(Qos::Burstable), Just(Qos::BestEffort)]
}

/// The directory of a pod as the kubelet names it (pkg/kubelet/cm: `GetPodContainerName`, `ToSystemd`,
/// `ToCgroupfs`).
fn kubelets_name(root: &[String], qos: Qos, uid: &str, systemd: bool) -> String {
    let mut parts = root.to_vec();
    parts.push("kubepods".to_owned());
    match qos {
        Qos::Guaranteed => {}
        Qos::Burstable => parts.push("burstable".to_owned()),
        Qos::BestEffort => parts.push("besteffort".to_owned()),
    }
    parts.push(format!("pod{uid}"));
    if !systemd {
        return format!("/{}", parts.join("/"));
    }
    let mut path = String::new();
    let mut slice = String::new();
    for part in parts {
        if !slice.is_empty() {
            slice.push('-');
        }
        slice.push_str(&part.replace('-', "_"));
        path.push_str(&format!("/{slice}.slice"));
    }
    path
}

/// Components that hold a UID and are no pod's directory in the place where they stand.
fn decoy() -> impl Strategy<Value = String> {
    let around = prop_oneof![
        Just(("", "")),
        Just(("", ".scope")),
        Just(("pod", "")),
        Just(("pod", ".slice")),
        Just(("user-", ".slice")),
        Just(("cri-containerd-", ".scope")),
        Just(("kubepods-pod", ".slice")),
        Just(("kubepods-burstable-pod", ".slice")),
        Just(("kubepods-burstable-pod", ".slice:cri-containerd")),
        Just(("kubepods-burstable-pod", ".slice:cri-containerd:app")),
        Just(("kubepods-burstable-pod", "")),
        Just(("kubepods-Burstable-pod", ".slice:cri-containerd:app")),
        Just(("k8s_app_", "_0")),
    ];
    let with_uid = (around, uid(), any::<bool>()).prop_map(|((before, after), uid, under)| {
        format!("{before}{}{after}", if under { uid.replace('-', "_") } else { uid })
    });
    // Those of a class, which alone make no pod of what lies in them.
    let class = prop_oneof!["burstable", "besteffort", "kubepods-burstable[.]slice"];
    prop_oneof![3 => with_uid, 1 => class]
}

proptest! {
    #[test]
    fn any_path(path in "(/|[.]{2}|[a-z0-9:_-]|kubepods|pod|[.]slice|[.]scope|\\PC){0,60}") {
        let _read = CgroupPath::parse(&path);
    }

    #[test]
    fn any_file(file in proptest::collection::vec(any::<u8>(), 0..300), path in "\\PC{0,80}") {
        let _read = ProcCgroup::parse(&file).place();
        let _read = ProcCgroup::parse(format!("0::/{path}\n3:{path}").as_bytes()).place();
    }

    #[test]
    fn round_trip(
        uid in uid(),
        qos in qos(),
        systemd in any::<bool>(),
        root in proptest::collection::vec("[a-z][a-z0-9]{0,6}", 0..3),
        outside in proptest::collection::vec("[a-z][a-z0-9]{0,6}([.]slice)?", 0..3),
    ) {
        let mut path: String = outside.iter().map(|name| format!("/{name}")).collect();
        path.push_str(&kubelets_name(&root, qos, &uid, systemd));
        let place = CgroupPath::parse(&path);
        prop_assert_eq!(place.pods.len(), 1, "{}", path);
        prop_assert_eq!(&place.pods[0].uid, &uid);
        prop_assert_eq!(place.pods[0].qos, Some(qos));
        prop_assert_eq!(&place.pods[0].part, &Part::Pod);
        prop_assert_eq!(place.pods[0].depth, path.split('/').count() - 1);
    }

    /// UIDs above, between and below the pod's, each in a name that is no pod's there.
    #[test]
    fn no_other_uid_wins(
        uid in uid(),
        qos in qos(),
        systemd in any::<bool>(),
        above in proptest::collection::vec(decoy(), 0..3),
        below in proptest::collection::vec(decoy(), 1..4),
        container in proptest::option::of("[0-9a-f]{64}"),
    ) {
        let join = |names: &[String]| names.iter().map(|name| format!("/{name}")).collect::<String>();
        let mut path = join(&above);
        path.push_str(&kubelets_name(&[], qos, &uid, systemd));
        if let Some(id) = &container {
            path.push_str(&format!("/{id}"));
        }
        path.push_str(&join(&below));
        let place = CgroupPath::parse(&path);
        let uids: Vec<_> = place.pods.iter().map(|pod| pod.uid.as_str()).collect();
        prop_assert_eq!(uids, [uid.as_str()], "{}", path);
        prop_assert_eq!(place.pods[0].part.container(), container.as_deref());
    }

    /// A whole node's path by another pod's UID, made inside a container.
    #[test]
    fn no_made_up_node_wins(
        uid in uid(),
        other in uid(),
        qos in qos(),
        systemd in any::<(bool, bool)>(),
        id in "[0-9a-f]{64}",
    ) {
        prop_assume!(uid != other);
        let outer = kubelets_name(&[], qos, &uid, systemd.0);
        let inner = kubelets_name(&[], qos, &other, systemd.1);
        let place = CgroupPath::parse(&format!("{outer}/{id}{inner}/{id}"));
        let owner = place.owner(|candidate| candidate == uid || candidate == other);
        prop_assert_eq!(owner.map(|pod| pod.uid.as_str()), Some(uid.as_str()));
    }

    /// Above the pod, nothing but a path that leaves the namespace stands for what is missing.
    #[test]
    fn cut_paths(uid in uid(), qos in qos(), systemd in any::<bool>(), cut in 0_usize..3) {
        let whole = kubelets_name(&[], qos, &uid, systemd);
        let names: Vec<_> = whole.split('/').skip(1).collect();
        let cut = cut.min(names.len() - 1);
        let rest = names[cut..].join("/");
        let seen = CgroupPath::parse(&format!("/../../{rest}"));
        prop_assert_eq!(seen.pods.len(), 1);
        prop_assert_eq!(&seen.pods[0].uid, &uid);
        let whole = CgroupPath::parse(&format!("/{rest}"));
        prop_assert_eq!(whole.pods.len(), usize::from(cut == 0));
    }
}
