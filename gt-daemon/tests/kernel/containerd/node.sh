#!/bin/sh
# The first process of a test's node, in pid and mount namespaces of its own: containerd itself, or a systemd
# that starts it. When it ends, the kernel ends everything below it and takes the mounts away.
#
# node.sh DIRECTORY           containerd makes cgroups by itself, in the machine's trees
# node.sh DIRECTORY CGROUP    systemd makes them, below CGROUP of every tree, as in a node that is itself a container
set -eu
dir=$1
cgroup=${2:-}

# A root of its own, which runc can leave also where the machine runs from an initramfs. On the machine's disks it
# can write to the node's directory only; what programs keep elsewhere is in memory.
mount --make-rprivate /
root=$dir/root
mount --rbind / "$root"
mount -o remount,bind,ro "$root"
# As systemd has all mounts of a machine: containers may ask for what is mounted there later.
mount --make-rshared "$root/sys"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/var/lib"
mount --bind "$dir" "$root$dir"
mkdir "$root/run/netns"
mount --rbind /run/netns "$root/run/netns"

if [ -z "$cgroup" ]; then
    exec chroot "$root" containerd --config "$dir/config.toml" > "$dir/containerd.log" 2>&1
fi

for tree in /sys/fs/cgroup /sys/fs/cgroup/*; do
    [ -e "$tree/$cgroup/cgroup.procs" ] || continue
    # An empty set of CPUs (cgroup v1) takes no process in.
    for set in cpuset.cpus cpuset.mems; do
        [ ! -e "$tree/$set" ] || cat "$tree/$set" > "$tree/$cgroup/$set"
    done
    echo $$ > "$tree/$cgroup/cgroup.procs"
done
# From here on CGROUP is the root of every tree.
exec unshare --cgroup /bin/sh "$dir/systemd.sh" "$dir"
