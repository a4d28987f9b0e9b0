#!/bin/sh
# The network of the pods, as a CNI plugin (containernetworking/cni, SPEC.md). The runtime calls it by two names:
# `loopback`, and `gt-test`, which joins the pod with the namespace $peer. Beside it lies the file `settings`.
set -eu
here=${0%/*}
peer='' network=''
. "$here/settings"

inside() {
    nsenter "--net=$CNI_NETNS" ip "$@"
}

case "$CNI_COMMAND ${0##*/}" in
"ADD loopback")
    inside link set lo up
    echo '{"cniVersion":"0.4.0","interfaces":[],"ips":[]}'
    ;;
"ADD gt-test")
    number=2
    until mkdir "$here/address-$number" 2> /dev/null; do
        number=$((number + 1))
        [ "$number" -lt 255 ]
    done
    address=$network.$number
    ip -n "$peer" link add "pod$number" type veth peer name "$CNI_IFNAME" netns "$CNI_NETNS"
    inside address add "$address/24" dev "$CNI_IFNAME"
    inside link set "$CNI_IFNAME" up
    ip -n "$peer" address add "$network.1/32" dev "pod$number"
    ip -n "$peer" link set "pod$number" up
    ip -n "$peer" route add "$address/32" dev "pod$number" src "$network.1"
    echo "{\"cniVersion\":\"0.4.0\",\"interfaces\":[{\"name\":\"$CNI_IFNAME\",\"sandbox\":\"$CNI_NETNS\"}]," \
        "\"ips\":[{\"version\":\"4\",\"interface\":0,\"address\":\"$address/24\"}]}"
    ;;
# A pod's devices go with its namespace.
"DEL "*) ;;
*)
    echo "{\"cniVersion\":\"0.4.0\",\"code\":4,\"msg\":\"this plugin knows no $CNI_COMMAND\"}"
    exit 1
    ;;
esac
