#!/bin/busybox sh
# The first process of a test guest: mounts what a node has, runs the kernel tests, tells the verdict in
# exactly one line and turns the guest off. What to run stands in /etc/gt-vm, written per run.

/bin/busybox --install -s /bin
# The real tools come before busybox's.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb

finish() {
    # A new line first: a test may have left half a line behind.
    printf '\ngt-vm-verdict: %s\n' "$1"
    sync
    poweroff -f
}

must() {
    "$@" || finish "fail init could not $*"
}

must mount -t proc proc /proc
must mount -t sysfs sysfs /sys
must mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
must mount -t devpts devpts /dev/pts
must mount -t tmpfs -o mode=1777 tmpfs /dev/shm
must mount -t tmpfs -o mode=1777 tmpfs /tmp
must mount -t tmpfs -o mode=755 tmpfs /run
must mount -t securityfs securityfs /sys/kernel/security
must mount -t bpf bpf /sys/fs/bpf
must mount -t tracefs tracefs /sys/kernel/tracing
must mount -t debugfs debugfs /sys/kernel/debug

# In the order of their dependencies.
while read -r module; do
    must insmod "$module"
done < /etc/gt-modules

must ip link set lo up
hostname gt-vm

. /etc/gt-vm
if [ "${GT_CGROUPS:-}" = hybrid ]; then
    must mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
    mkdir -p /sys/fs/cgroup/unified /sys/fs/cgroup/memory /sys/fs/cgroup/cpu
    must mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified
    must mount -t cgroup -o memory cgroup /sys/fs/cgroup/memory
    must mount -t cgroup -o cpu cgroup /sys/fs/cgroup/cpu
else
    must mount -t cgroup2 cgroup2 /sys/fs/cgroup
fi
echo "gt-vm-tests: kernel $(uname -r), started after $(cut -d ' ' -f 1 /proc/uptime) s"
cd /tmp || finish 'fail init could not enter /tmp'
/bin/kernel-tests "$@" < /dev/null
code=$?
if [ "$code" -eq 0 ]; then
    finish pass
fi
echo 'gt-vm-tests: the last messages of the kernel:'
dmesg | tail -n 30
finish "fail $code"
