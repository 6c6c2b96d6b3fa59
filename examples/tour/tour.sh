#!/usr/bin/env bash
# A tour of what an operator sees when nodes fail, pods are held up, and a rollout is stuck. docs/tour.md shows what it prints.
#
#   cargo build -p bailiff-cli && BAILIFF=target/debug/bailiff examples/tour/tour.sh
source "$(dirname "$0")/../play.sh"
cp "$(dirname "$0")"/*.yaml "$work"
cd "$work"
export LC_ALL=C

# Starts `bailiff …` as it is shown, but on any free port, so that it can be played beside anything else.
run_on_any_port() {
    echo "\$ $* &"
    start "$2.log" "${@//127.0.0.1:*/127.0.0.1:0}"
}
# Waits until the bus says this: that what is to be shown has happened.
said() {
    timeout 60 bailiff events --until "$1" >/dev/null
}
# Waits until nothing wants this pod to go any more, because it is gone for good.
gone() {
    timeout 60 sh -c 'while bailiff explain --brief pod "$1" | grep -q "should go"; do sleep 0.1; done' - "$1"
}
each_node_is() {
    local zone=$1 what=$2 number
    for number in 000 001 002 003; do
        said "node node-$zone-$number in zone sandbox:sandbox-$zone is $what"
    done
}

chapter Two terminals
run_on_any_port bailiff sandbox --nodes 8 --zones 2 --listen 127.0.0.1:7470 --write-kubeconfig sandbox.kubeconfig
expect current-context sandbox.kubeconfig
run 'export KUBECONFIG=$PWD/sandbox.kubeconfig'
run "bailiff sandbox set --all lease-interval=1s | tail -n 1"
run_on_any_port bailiff run --bus-listen 127.0.0.1:7460 --eviction-method evict --node-monitor-grace-period 6s --node-eviction-rate 0.5
expect "Event bus is open" run.log
BAILIFF_BUS=$(sed -n 's/.*Event bus is open.*address=\([0-9.:]*\).*/\1/p' run.log)
export BAILIFF_BUS
for zone in a b; do
    said "zone sandbox:sandbox-$zone is in state Normal: 0 of 4 voting nodes not ready, 0 late; 0 waiting at 0.5 nodes/s"
done
timeout 60 sh -c 'until bailiff status >/dev/null; do sleep 0.1; done'
run bailiff sandbox apply pods.yaml budget.yaml

chapter All is well
run bailiff status

chapter A zone fails
run bailiff sandbox set --zone sandbox-a alive=false
each_node_is a isolated
said "pod default/cache-0 on node node-a-000 was deleted"
said "zone sandbox:sandbox-a is in state FullDisruption: 4 of 4 voting nodes not ready, 0 late; 0 waiting"

chapter A zone fails: the zone
run bailiff explain --brief zone sandbox:sandbox-a
run "bailiff events --topic eviction-outcomes --grep 'is isolated' | sort -k 4"

chapter A zone fails: a pod that went
run bailiff explain pod cache-0

chapter A zone fails: a pod that waits
run bailiff explain --brief pod web-0
run 'failed=$(date -u +%FT%T.%NZ)'

chapter A zone fails: and is back
run bailiff sandbox set --zone sandbox-a alive-
each_node_is a healthy
each_node_is a released
said "zone sandbox:sandbox-a is in state Normal: 0 of 4 voting nodes not ready, 0 late; 0 waiting"
said "pod default/web-0 on node node-a-000 may stay"
run bailiff explain --brief pod web-0

chapter A zone fails: what was known then
run 'bailiff explain --brief pod web-0 --at "$failed"'

chapter A taint by hand
run bailiff sandbox taint --node node-b-000 maintenance=disk:NoExecute
said "pod default/web-1 on node node-b-000 was deleted"
said "pod default/batch-0 on node node-b-000 is to go"
gone web-1
run bailiff explain pod web-1

chapter A taint by hand: a pod that tolerates it
run bailiff explain --brief pod batch-0

chapter A taint by hand: for programs
run "bailiff explain pod batch-0 -o json | grep -o '\"future\":.*'"

chapter A taint by hand: taken off
run bailiff sandbox taint --node node-b-000 maintenance-
said "pod default/batch-0 on node node-b-000 may stay"
run bailiff explain --brief pod batch-0

chapter A budget that blocks
run bailiff sandbox taint --node node-b-001 maintenance=kernel:NoExecute
said "pod default/db-0 on node node-b-001 may not go yet"
run bailiff explain --brief pod db-0

chapter A budget that blocks: on the screen
run bailiff top --once

chapter A budget that blocks: until it does not
run bailiff sandbox apply budget-of-one.yaml
run "bailiff events --grep db-0 --until 'was deleted' | tail -n 1"
run bailiff sandbox taint --node node-b-001 maintenance-

chapter A pause
run "bailiff pause --zone sandbox-b --for 1h --reason 'switch replacement'"
run bailiff pauses
said "zone sandbox:sandbox-b is in state Normal: 0 of 4 voting nodes not ready, 0 late; 0 waiting at 0.5 nodes/s; held since"
run bailiff sandbox taint --node node-b-003 maintenance=fan:NoExecute
run bailiff sandbox set --node node-b-002 alive=false
said "pod default/cache-1 on node node-b-003 is due, and held"
said "node node-b-002 in zone sandbox:sandbox-b is late"
said "zone sandbox:sandbox-b is in state Normal: 0 of 4 voting nodes not ready, 1 late"

chapter A pause: what it holds
run bailiff explain --brief pod cache-1

chapter A pause: on one screen
run bailiff status

chapter A pause: its end
run bailiff resume --zone sandbox-b
said "pod default/cache-1 on node node-b-003 was deleted"
gone cache-1
said "node node-b-002 in zone sandbox:sandbox-b is isolated"
said "zone sandbox:sandbox-b is in state Normal: 1 of 4 voting nodes not ready, 0 late; 0 waiting"
run bailiff pauses
run bailiff explain --brief pod cache-1
run bailiff explain --brief node node-b-002

chapter A pause: and all is well again
run bailiff sandbox taint --node node-b-003 maintenance-
run bailiff sandbox set --node node-b-002 alive-
run "bailiff events --grep node-b-002 --until 'is released' | tail -n 1"

chapter A stuck rollout
run bailiff sandbox apply agent-1.yaml
run "bailiff events --grep default/agent --until '8 of 8 nodes updated, 8 available' | tail -n 1"
run bailiff sandbox apply agent-2.yaml
said "1 without its image"

chapter A stuck rollout: why
run bailiff explain --brief daemonset agent

chapter A stuck rollout: what ends it
run bailiff sandbox apply agent-3.yaml
run "bailiff events --grep default/agent --until '8 of 8 nodes updated, 8 available' | tail -n 1"
