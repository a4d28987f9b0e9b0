//! Trees on a file system of files: inotify tells the same there as of cgroups. Those on real cgroups are in
//! tests/kernel.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::{fd::AsRawFd as _, unix::fs::MetadataExt as _},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use nix::{
    fcntl::{OFlag, openat},
    sys::stat::{Mode, mkdirat},
};

use super::{walk::may_lead_to_pods, *};

const UID: &str = "8ba3b3c8-6cb5-4d4f-9c3e-2a8f1a7d7f10";
const OTHER: &str = "0123456789abcdef0123456789abcdef";

/// A root, and directories below it.
fn made(directories: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("cgroup");
    fs::create_dir(&root).unwrap();
    for directory in directories {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    (dir, root)
}

fn watching(root: &Path) -> PodTree {
    let tree = PodTree::new(&[root.to_owned()], 10_000, Instant::now());
    assert_eq!(tree.fault(), None);
    tree
}

/// The view is what a scan finds, and so are the watches what a new tree would watch.
fn assert_true(tree: &PodTree, root: &Path) {
    assert_eq!(*tree.pods(), PodDirs::scan(&[root.to_owned()]));
    assert_eq!(tree.watched(), watching(root).watched());
    // proc_pid_fdinfo(5)
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", tree.fd().unwrap().as_raw_fd())).unwrap();
    let held = info.lines().filter(|line| line.starts_with("inotify wd:")).count();
    assert_eq!(held, tree.watched(), "watches the kernel holds");
}

/// Exercises both drivers, a nested node, a node in a pod and look-alikes, so that each pod has its own
/// directories and no other.
#[test]
fn views() {
    let (inner, id) = (OTHER.replace('0', "1"), "a".repeat(64));
    let pod = format!("kubepods/burstable/pod{UID}");
    let node = format!("docker/{id}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{OTHER}.slice");
    let (_dir, root) = made(&[
        &format!("{pod}/{id}/kubepods/pod{inner}/{id}"),
        &format!("{pod}/{id}/kubepods/pod{OTHER}"),
        &format!("{pod}/crio-conmon-{id}"),
        &format!("{node}/crio-{id}.scope/container"),
        &format!("system.slice/pod{}", OTHER.replace('0', "2")),
    ]);
    let dirs = PodDirs::scan(std::slice::from_ref(&root));
    assert_eq!(dirs.of(UID), [root.join(&pod)]);
    assert_eq!(dirs.of(OTHER), [root.join(&node)], "not the one that a container of another pod made");
    assert_eq!(dirs.of(&inner), [root.join(format!("{pod}/{id}/kubepods/pod{inner}"))]);
    assert_eq!(dirs.uids().collect::<BTreeSet<_>>(), BTreeSet::from([UID, OTHER, inner.as_str()]));
    let cgroups: Vec<_> = dirs
        .cgroups(OTHER)
        .map(|cgroup| {
            assert_eq!(cgroup.id, fs::metadata(&cgroup.path).unwrap().ino());
            let below = cgroup.path.strip_prefix(root.join(&node)).unwrap().to_str().unwrap();
            (below.replace(&id, "ID"), cgroup.place.pods[0].part.container().is_some())
        })
        .collect();
    assert_eq!(
        cgroups,
        [
            (String::new(), false),
            ("crio-ID.scope".to_owned(), true),
            ("crio-ID.scope/container".to_owned(), true)
        ]
    );
    assert_eq!(dirs.cgroups(UID).count(), 7, "all that is in it, also another's pods");
    assert!(dirs.of("none").is_empty());
}

/// Exercises a pod whose containers lie apart from it, in two trees, so that all its directories are found.
#[test]
fn containers_apart() {
    let under = UID.replace('-', "_");
    let (a, b) = ("a".repeat(64), "b".repeat(64));
    let apart = |id: &str| {
        format!("v1/system.slice/containerd.service/kubepods-pod{under}.slice:cri-containerd:{id}")
    };
    let own = format!("v1/kubepods.slice/kubepods-pod{under}.slice");
    let unified = format!("v2/kubepods.slice/kubepods-pod{under}.slice");
    let (_dir, root) = made(&[&apart(&a), &apart(&b), &own, &unified]);
    let dirs = PodDirs::scan(&[root.join("v2"), root.join("v1")]);
    let expected = [unified, own, apart(&a), apart(&b)].map(|path| root.join(path));
    assert_eq!(dirs.of(UID), expected);
}

/// Exercises pods that come and go and come again, also faster than they are looked at, so that the view is
/// true after each refresh, and tells whether it changed.
#[test]
fn follows() {
    let (_dir, root) = made(&["kubepods"]);
    let pod = root.join(format!("kubepods/burstable/pod{UID}"));
    let mut tree = watching(&root);
    assert!(!tree.refresh(Instant::now()), "nothing happened");
    fs::create_dir_all(pod.join("a".repeat(64)).join("deep/deeper")).unwrap();
    assert!(tree.refresh(Instant::now()));
    assert_true(&tree, &root);
    let before = tree.pods();
    assert_eq!(before.cgroups(UID).count(), 4);

    fs::create_dir(root.join("system.slice")).unwrap();
    assert!(!tree.refresh(Instant::now()), "no pod");
    fs::remove_dir_all(&pod).unwrap();
    fs::create_dir(&pod).unwrap();
    assert!(tree.refresh(Instant::now()), "another cgroup by the same name");
    assert_true(&tree, &root);
    assert_eq!(before.cgroups(UID).count(), 4, "the older handle has the older state");

    fs::rename(&pod, pod.with_file_name(format!("pod{OTHER}"))).unwrap();
    assert!(tree.refresh(Instant::now()));
    assert_true(&tree, &root);
    assert!(tree.pods().of(UID).is_empty());

    fs::remove_dir_all(&root).unwrap();
    assert!(tree.refresh(Instant::now()));
    assert_eq!(tree.watched(), 0);
    fs::create_dir_all(&pod).unwrap();
    assert!(tree.refresh(Instant::now()), "a root that is there again");
    assert_true(&tree, &root);
    assert_eq!(tree.overflows(), 0);
}

/// Exercises the wait, so that a new pod wakes the waiting thread at once, and quiet trees do not.
#[test]
fn wakes() {
    let (_dir, root) = made(&["kubepods/besteffort"]);
    let mut tree = watching(&root);
    assert!(!tree.wait(Duration::from_millis(20)));
    let began = Instant::now();
    let maker = thread::spawn({
        let root = root.clone();
        move || {
            thread::sleep(Duration::from_millis(50));
            fs::create_dir(root.join(format!("kubepods/besteffort/pod{UID}"))).unwrap();
        }
    });
    assert!(tree.wait(Duration::from_secs(60)));
    assert!(began.elapsed() < Duration::from_secs(30));
    maker.join().unwrap();
    tree.refresh(Instant::now());
    assert_eq!(tree.pods().of(UID).len(), 1);
    assert!(!tree.wait(Duration::from_millis(20)), "all was taken in");
}

/// Exercises hundreds of pods made and removed in loops by several threads while the tree is read, so that
/// nothing is missed or left over.
#[test]
fn churn() {
    let (_dir, root) = made(&["kubepods/burstable", "docker"]);
    let mut tree = watching(&root);
    let done = AtomicBool::new(false);
    let mut changes = 0_u32;
    thread::scope(|scope| {
        let makers: Vec<_> = (0..3)
            .map(|maker| {
                let root = &root;
                scope.spawn(move || {
                    for round in 0..400_u32 {
                        let uid = format!("{:032x}", u128::from(round % 40) << 8 | maker);
                        let pod = match round % 3 {
                            0 => root.join(format!("kubepods/pod{uid}")),
                            1 => root.join(format!("kubepods/burstable/pod{uid}")),
                            _ => root.join(format!("docker/{round}-{maker}/kubepods/pod{uid}")),
                        };
                        fs::create_dir_all(pod.join(format!("{round:064x}/child"))).unwrap();
                        // Every fifth stays, until another round makes it again.
                        if round % 5 != 0 {
                            fs::remove_dir_all(&pod).unwrap();
                        }
                        if round % 8 == 0 {
                            // On a single processor, too, the tree is to be read in between.
                            thread::sleep(Duration::from_millis(1));
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            for maker in makers {
                maker.join().unwrap();
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let _woken = tree.wait(Duration::from_millis(1));
            changes += u32::from(tree.refresh(Instant::now()));
        }
    });
    tree.refresh(Instant::now());
    assert!(changes > 5, "{changes}");
    assert_eq!(tree.fault(), None);
    assert!(tree.pods().uids().count() > 20);
    assert_true(&tree, &root);
}

/// Exercises more changes than the kernel keeps, so that the view is true all the same, and the loss is
/// counted.
#[test]
fn overflow() {
    let (dir, root) = made(&[&format!("kubepods/pod{OTHER}"), "a/b"]);
    let queue: usize =
        fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    let mut tree = watching(&root);
    for _ in 0..=queue / 2 {
        let noise = root.join("noise");
        File::create(&noise).unwrap();
        fs::remove_file(noise).unwrap();
    }
    // None of these is told of any more.
    fs::remove_dir_all(root.join("kubepods")).unwrap();
    fs::create_dir_all(root.join(format!("kubepods/besteffort/pod{UID}/child"))).unwrap();
    // Away from here, but not from the kernel's memory, as with any cgroup that is removed.
    fs::rename(root.join("a"), dir.path().join("a")).unwrap();
    assert!(tree.refresh(Instant::now()));
    assert_eq!(tree.overflows(), 1);
    assert_true(&tree, &root);
    fs::create_dir(root.join(format!("kubepods/pod{OTHER}"))).unwrap();
    assert!(tree.refresh(Instant::now()), "it is followed again");
    assert_true(&tree, &root);
    assert_eq!(tree.overflows(), 1);
}

/// Exercises a tree that is larger than the limit, so that pods are found by walking, the reason is told, and
/// the tree is followed again once it can be.
#[test]
fn more_than_the_limit() {
    let (_dir, root) = made(&[&format!("kubepods/pod{UID}"), "docker"]);
    let now = Instant::now();
    let mut tree = PodTree::new(std::slice::from_ref(&root), 5, now);
    assert_eq!(tree.watched(), 4);
    for number in 0..5 {
        fs::create_dir(root.join(format!("docker/{number}"))).unwrap();
    }
    assert!(tree.refresh(now), "whoever uses it has to look");
    assert_eq!(tree.fault(), Some(&WatchError::Own(5)));
    assert!(tree.fault().unwrap().to_string().contains("max_user_watches"));
    assert!(tree.fd().is_none());
    assert!(!tree.wait(Duration::from_millis(1)));
    assert_eq!(tree.pods().of(UID).len(), 1);
    fs::create_dir(root.join(format!("kubepods/pod{OTHER}"))).unwrap();
    assert!(tree.refresh(now));
    assert_eq!(tree.pods().of(OTHER).len(), 1);
    assert!(!tree.refresh(now));

    fs::remove_dir_all(root.join("docker")).unwrap();
    tree.refresh(now + RETRY / 2);
    assert!(tree.fault().is_some(), "not tried yet");
    assert!(!tree.refresh(now + RETRY), "no pod came or went");
    assert_eq!(tree.fault(), None);
    assert_true(&tree, &root);
    let small = PodTree::new(std::slice::from_ref(&root), 3, now);
    assert_eq!(small.fault(), Some(&WatchError::Own(3)), "also at the start");
    assert_eq!(small.pods(), tree.pods());
}

/// Exercises a host's directories, so that pods are found wherever nodes run, and what cannot hold any is not
/// watched.
#[test]
fn unrelated_directories() {
    for name in
        ["kubepods", "docker", "kubelet.slice", "machine.slice", "lxc.payload.k3s", "user@1000.service"]
    {
        assert!(may_lead_to_pods(name), "{name}");
    }
    let id = "a".repeat(64);
    for name in
        [format!("docker-{id}.scope"), "k3s-rootless.service".into(), "systemd-nspawn@n.service".into()]
    {
        assert!(may_lead_to_pods(&name), "{name}");
    }
    let unrelated = [
        "init.scope",
        "session-3.scope",
        "proc-fs.mount",
        "dbus.socket",
        "systemd-journald.service",
        "a.swap",
    ];
    for name in unrelated.map(str::to_owned).into_iter().chain([format!("crio-conmon-{id}.scope")]) {
        assert!(!may_lead_to_pods(&name), "{name}");
    }
    // In a pod, all of these may be a container's own.
    let pod = format!("kubepods/pod{UID}/{id}");
    let (_dir, root) = made(&[
        &format!("{pod}/init.scope"),
        &format!("{pod}/system.slice/dbus.socket"),
        "system.slice/systemd-udevd.service/udev",
        "system.slice/run.mount",
    ]);
    let mut tree = watching(&root);
    assert_eq!(tree.watched(), 8, "the root, system.slice, kubepods and the pod's five");
    fs::create_dir(root.join("system.slice/tmp.mount")).unwrap();
    let deepest = root.join(vec!["d"; 100].join("/"));
    fs::create_dir_all(&deepest).unwrap();
    tree.refresh(Instant::now());
    assert_eq!(tree.watched(), 8 + walk::DEPTH, "there is an end to it");
}

/// Exercises directories so deep that no path leads to them, as a container may make them, so that the rest is still
/// followed.
#[test]
fn too_deep_for_a_path() {
    let (_dir, root) = made(&[&format!("kubepods/pod{UID}")]);
    let mut tree = watching(&root);
    let mode = Mode::from_bits_truncate(0o755);
    let mut directory = File::open(root.join(format!("kubepods/pod{UID}"))).unwrap();
    let name = "x".repeat(250);
    for _ in 0..20 {
        mkdirat(&directory, name.as_str(), mode).unwrap();
        directory = File::from(openat(&directory, name.as_str(), OFlag::O_DIRECTORY, mode).unwrap());
    }
    assert!(tree.refresh(Instant::now()));
    assert_eq!(tree.fault(), None);
    fs::create_dir_all(root.join(format!("kubepods/pod{OTHER}"))).unwrap();
    assert!(tree.refresh(Instant::now()));
    assert_eq!(tree.pods().of(OTHER).len(), 1);
}
