//! The tree of pods' cgroups on real cgroups: followed by inotify, and walked where the kernel allows no
//! watches.

use std::{
    fs, io,
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use gt_daemon::pods::tree::{PodDirs, PodTree, subdirectories};
use xtask::sandbox::{Cgroup, cgroup2_root};

use crate::{Case, Skip, child};

pub fn cases(skip: Option<&String>) -> Vec<Case> {
    let skip: Skip = skip.cloned();
    let v1 = PathBuf::from("/sys/fs/cgroup/memory");
    let no_v1 = || {
        let there = v1.join("cgroup.procs").exists();
        skip.clone().or_else(|| (!there).then(|| "no v1 hierarchy with the memory controller".to_owned()))
    };
    let no_namespace = skip.clone().or_else(|| {
        (!Path::new("/proc/sys/user/max_inotify_watches").exists())
            .then(|| "this kernel has no user namespaces, so no limits of their own".to_owned())
    });
    vec![
        Case::new("cgroups::followed_on_v2", skip.clone(), || followed(&cgroup2_root()?)),
        Case::new("cgroups::followed_on_v1", no_v1(), move || followed(&v1)),
        Case::new("cgroups::no_watch_left", no_namespace.clone(), || limited("watches", "max_user_watches")),
        Case::new("cgroups::no_instance_left", no_namespace, || limited("instances", "max_user_instances")),
    ]
}

/// A cgroup of this test, gone at the end with all that was made in it.
struct Root(Cgroup);

impl Root {
    fn create(hierarchy: &Path) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Ok(Self(Cgroup::create(hierarchy, &format!("gt-test-{}-tree-{number}", std::process::id()))?))
    }

    fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    fn clear(&self) {
        for child in subdirectories(self.0.path()) {
            if let Err(error) = remove(&child) {
                eprintln!("left behind: {}: {error}", child.display());
            }
        }
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Removes a cgroup and those below it. Files in a cgroup cannot be removed one by one.
fn remove(cgroup: &Path) -> io::Result<()> {
    for child in subdirectories(cgroup) {
        remove(&child)?;
    }
    fs::remove_dir(cgroup)
}

fn uid(number: u32) -> String {
    format!("{number:032x}")
}

/// Pods of both drivers come and go by the hundred while the tree is followed: at the end it is as a scan
/// finds it, and the kernel holds no watch of a cgroup that is gone. Then one more pod wakes whoever waits.
fn followed(hierarchy: &Path) -> Result<()> {
    let guard = Root::create(hierarchy)?;
    let root = guard.path();
    let mut tree = PodTree::new(std::slice::from_ref(&root), 10_000, Instant::now());
    ensure!(tree.fault().is_none(), "{:?}", tree.fault());
    let done = AtomicBool::new(false);
    let reads = AtomicU32::new(0);
    let mut changes = 0_u32;
    thread::scope(|scope| -> Result<()> {
        let maker = scope.spawn(|| -> Result<()> {
            let made = (0..400).try_for_each(|round| -> Result<()> {
                let uid = uid(round % 30);
                let pod = if round % 2 == 0 {
                    root.join(format!("kubepods/burstable/pod{uid}/{round:064x}"))
                } else {
                    root.join(format!(
                        "kubepods.slice/kubepods-pod{uid}.slice/crio-{round:064x}.scope/container"
                    ))
                };
                fs::create_dir_all(&pod).with_context(|| pod.display().to_string())?;
                if round % 4 > 1 {
                    remove(pod.parent().context("a pod has a parent")?)?;
                }
                // However slow the reader is, the tree is to be read in between.
                let read = reads.load(Ordering::Acquire);
                while round % 40 == 39 && reads.load(Ordering::Acquire) < read + 2 {
                    thread::sleep(Duration::from_millis(1));
                }
                Ok(())
            });
            done.store(true, Ordering::Release);
            made
        });
        while !done.load(Ordering::Acquire) {
            let _woken = tree.wait(Duration::from_millis(2));
            changes += u32::from(tree.refresh(Instant::now()));
            reads.fetch_add(1, Ordering::Release);
        }
        maker.join().expect("the maker panicked")
    })?;
    tree.refresh(Instant::now());
    ensure!(changes > 5, "{changes} changes were seen");
    ensure!(tree.fault().is_none() && tree.overflows() == 0, "{tree:?}");
    let scan = PodDirs::scan(std::slice::from_ref(&root));
    ensure!(scan.uids().count() > 10, "{scan:?}");
    ensure!(*tree.pods() == scan, "{:?}\nnot as scanned:\n{scan:?}", tree.pods());
    ensure!(watches(&tree)? == tree.watched(), "{} watches, not {}", watches(&tree)?, tree.watched());

    let pod = root.join(format!("kubepods/pod{}", uid(1000)));
    fs::create_dir(&pod)?;
    ensure!(tree.wait(Duration::from_secs(10)), "a new pod wakes nobody");
    ensure!(tree.refresh(Instant::now()), "the new pod is not seen");
    ensure!(tree.pods().of(&uid(1000)) == [pod], "{:?}", tree.pods());

    guard.clear();
    tree.refresh(Instant::now());
    ensure!(tree.pods().uids().next().is_none(), "{:?}", tree.pods());
    ensure!(watches(&tree)? == 1, "the kernel keeps {} watches, not the root's alone", watches(&tree)?);
    Ok(())
}

/// How many watches the kernel holds for the tree (proc_pid_fdinfo(5)).
fn watches(tree: &PodTree) -> Result<usize> {
    let fd = tree.fd().context("nothing is watched")?.as_raw_fd();
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}"))?;
    Ok(info.lines().filter(|line| line.starts_with("inotify wd:")).count())
}

/// A process in a user namespace with few watches, or no instance, of inotify: it finds the pods by walking,
/// and names the limit.
fn limited(what: &str, named: &str) -> Result<()> {
    let guard = Root::create(&cgroup2_root()?)?;
    let root = guard.path();
    for number in 0..8 {
        fs::create_dir_all(root.join(format!("kubepods/pod{}", uid(number))))?;
    }
    let limit = if what == "watches" { 4 } else { 0 };
    let output = Command::new("unshare")
        .args(["-U", "-r", "/bin/sh", "-c"])
        .arg(format!("echo {limit} > /proc/sys/user/max_inotify_{what} && exec \"$0\""))
        .arg(std::env::current_exe()?)
        .env(child::VARIABLE, format!("tree {}", root.display()))
        .output()
        .context("cannot run unshare")?;
    let told = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}: {told}{}", output.status, String::from_utf8_lossy(&output.stderr));
    ensure!(told.contains(named) && told.contains("raise"), "no word of {named}: {told}");
    ensure!(told.contains("8 pods, then 9"), "{told}");
    Ok(())
}

/// The limited process's work.
pub fn walk(root: &Path) -> Result<()> {
    let mut tree = PodTree::new(&[root.to_owned()], 10_000, Instant::now());
    println!("{}", tree.fault().context("no fault")?);
    let before = tree.pods().uids().count();
    let pod = root.join(format!("kubepods/pod{}", uid(1000)));
    fs::create_dir(&pod)?;
    ensure!(tree.refresh(Instant::now()), "the new pod is not seen");
    println!("{before} pods, then {}", tree.pods().uids().count());
    Ok(fs::remove_dir(&pod)?)
}
