#!/bin/sh
# Goes on where node.sh ends, in a cgroup namespace too: the node's trees, and systemd with one service.
set -eu
dir=$1
root=$dir/root
trees=$root/sys/fs/cgroup

# The same trees as the machine's, from the node's cgroup down. No file system can be mounted upon itself.
mount -t tmpfs tmpfs "$trees"
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t cgroup2 cgroup2 "$trees"
else
    while IFS=: read -r number controllers _path; do
        name=${controllers#name=}
        # 0 is the v2 tree, which is mounted beside the others or is not.
        if [ "$number" -ne 0 ]; then
            mkdir "$trees/$name"
            mount -t cgroup -o "$controllers" cgroup "$trees/$name"
        elif [ -e /sys/fs/cgroup/unified/cgroup.controllers ]; then
            mkdir "$trees/unified"
            mount -t cgroup2 cgroup2 "$trees/unified"
        fi
    done < "$root/proc/self/cgroup"
fi

# systemd must not talk to the machine's console, nor change its settings.
mount --bind /dev/null "$root/dev/console"
for settings in fs kernel vm; do
    mount --bind "$root/proc/sys/$settings" "$root/proc/sys/$settings"
    mount -o remount,bind,ro "$root/proc/sys/$settings"
done
mkdir "$root/run/systemd"
exec env -i container=gt-test "PATH=$PATH" \
    "SYSTEMD_UNIT_PATH=$dir/units" SYSTEMD_GENERATOR_PATH= SYSTEMD_ENVIRONMENT_GENERATOR_PATH= \
    chroot "$root" /lib/systemd/systemd --system --unit=node.target --log-target=null --show-status=no
