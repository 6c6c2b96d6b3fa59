#!/usr/bin/env bash
# A tour of a sandbox cluster and of Bailiff at work on it, with nothing but kubectl. docs/kubectl-tour.md shows what it prints.
#
#   cargo build -p bailiff-cli && BAILIFF=target/debug/bailiff examples/kubectl/tour.sh
source "$(dirname "$0")/../play.sh"
needs kubectl
cd "$(dirname "$0")"

export KUBECONFIG=$work/kubeconfig
start "$work/sandbox.log" bailiff sandbox --listen 127.0.0.1:0 --nodes 6 --zones 3 --write-kubeconfig "$KUBECONFIG"
expect current-context "$KUBECONFIG"
# Its controllers. A silent node is given up sooner than the 50 s of a real cluster, so that the tour is short.
start "$work/run.log" bailiff run --kubeconfig "$KUBECONFIG" --node-monitor-grace-period 6s --node-monitor-period 1s

chapter A cluster of six nodes
# The kubelets keep up with that: leases every second instead of every ten.
run kubectl annotate nodes --all sandbox.bailiff.dev/lease-interval=1s
kubectl wait --for=condition=Ready nodes --all --timeout=60s >/dev/null
run kubectl get nodes -L topology.kubernetes.io/zone

chapter A DaemonSet, pods, and a budget for them
run kubectl apply -f agent.yaml
run "kubectl rollout status daemonset agent --timeout=60s | tail -n 1"
# After the daemon pods, so that each node gets one of these: the least loaded comes first.
run kubectl apply -f web.yaml
kubectl wait --for=jsonpath='{.status.readyReplicas}'=6 replicaset web --timeout=60s >/dev/null
kubectl wait --for=jsonpath='{.status.currentHealthy}'=6 poddisruptionbudget web --timeout=60s >/dev/null
run kubectl get daemonset,replicaset,poddisruptionbudget
run kubectl get pods -l app=agent --sort-by=.spec.nodeName -o custom-columns=POD:.metadata.name,NODE:.spec.nodeName,PHASE:.status.phase

chapter A new version, and back
run kubectl set image daemonset agent agent=example.com/agent:2
run "kubectl rollout status daemonset agent --timeout=60s | tail -n 1"
run kubectl rollout history daemonset agent
run kubectl rollout undo daemonset agent
run "kubectl rollout status daemonset agent --timeout=60s | tail -n 1"
run kubectl get daemonset agent -o jsonpath="'{.spec.template.spec.containers[0].image}{\"\\n\"}'"
run kubectl rollout restart daemonset agent
run "kubectl rollout status daemonset agent --timeout=60s | tail -n 1"

chapter A drain that a budget holds up
run kubectl cordon node-b-000
run_refused "kubectl drain node-b-000 --ignore-daemonsets --timeout=2s 2>&1 | grep budget"
run "kubectl patch poddisruptionbudget web -p '{\"spec\":{\"minAvailable\":5}}'"
kubectl wait --for=jsonpath='{.status.disruptionsAllowed}'=1 poddisruptionbudget web --timeout=60s >/dev/null
run "kubectl drain node-b-000 --ignore-daemonsets --timeout=60s 2>&1 | grep -E '(evicted|drained)$'"
run kubectl get pods -l app=web --field-selector spec.nodeName=node-b-000
run kubectl uncordon node-b-000

chapter A taint that pods do not tolerate
run kubectl taint node node-c-001 maintenance=yes:NoExecute
kubectl wait --for=delete pod -l app=agent --field-selector spec.nodeName=node-c-001 --timeout=60s >/dev/null
kubectl wait --for=jsonpath='{.status.currentNumberScheduled}'=5 daemonset agent --timeout=60s >/dev/null
run kubectl get daemonset agent
run kubectl taint node node-c-001 maintenance-
run "kubectl rollout status daemonset agent --timeout=60s | tail -n 1"
kubectl wait --for=jsonpath='{.status.currentHealthy}'=6 poddisruptionbudget web --timeout=60s >/dev/null

chapter A node that falls silent
# What a watch shows of it, to the end of the tour.
columns=NODE:.metadata.name,READY:'.status.conditions[?(@.type=="Ready")].status'
kubectl get node node-a-000 --watch -o custom-columns="$columns" >"$work/watch" 2>/dev/null &
processes+=($!)
expect True "$work/watch"
run kubectl annotate node node-a-000 sandbox.bailiff.dev/alive=false
kubectl wait --for=condition=Ready=Unknown node node-a-000 --timeout=60s >/dev/null
kubectl wait --for=jsonpath='{.spec.taints[?(@.effect=="NoExecute")].key}'=node.kubernetes.io/unreachable node node-a-000 --timeout=60s >/dev/null
run "kubectl get node node-a-000 -o jsonpath='{range .spec.taints[*]}{.key}:{.effect}{\"\\n\"}{end}' | sort"
kubectl wait --for=jsonpath='{.status.readyReplicas}'=6 replicaset web --timeout=60s >/dev/null
run kubectl annotate node node-a-000 sandbox.bailiff.dev/alive-
run kubectl wait --for=condition=Ready node node-a-000 --timeout=60s
kubectl wait --for=jsonpath='{.status.numberReady}'=6 daemonset agent --timeout=60s >/dev/null
run kubectl get nodes
# Who watches may be told of it last.
timeout 60 sh -c 'until sed "1,/Unknown/d" "$1" | grep -q True; do sleep 0.1; done' - "$work/watch"
echo "\$ kubectl get node node-a-000 --watch -o custom-columns=$columns | uniq"
uniq "$work/watch"
