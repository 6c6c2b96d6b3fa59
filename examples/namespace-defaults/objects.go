package main

import (
	"strconv"
	"time"

	pb "namespace-defaults/bailiffv1"
)

// What is read of Kubernetes' objects. Names of fields are those of the API, whatever their case.

type Meta struct {
	Name, Namespace, UID, ResourceVersion string
	Generation                            int64
	Labels                                map[string]string
	CreationTimestamp                     time.Time
}

type Condition struct {
	Type, Status, Reason string
	LastTransitionTime   time.Time
}

type Taint struct {
	Key       string `json:"key"`
	Value     string `json:"value,omitempty"`
	Effect    string `json:"effect"`
	TimeAdded string `json:"timeAdded,omitempty"`
}

type Toleration struct {
	Key, Operator, Value, Effect string
	TolerationSeconds            *int64
}

type Node struct {
	Metadata Meta
	Spec     struct {
		Taints        []Taint
		Unschedulable bool
	}
	Status struct{ Conditions []Condition }
}

type Pod struct {
	Metadata Meta
	Spec     struct {
		NodeName    string
		Tolerations []Toleration
	}
	Status struct{ Conditions []Condition }
}

type Namespace struct{ Metadata Meta }

type ConfigMap struct {
	Metadata   Meta
	Data       map[string]string
	BinaryData map[string]string
}

const (
	notReady    = "node.kubernetes.io/not-ready"
	unreachable = "node.kubernetes.io/unreachable"
)

func isHealth(key string) bool { return key == notReady || key == unreachable }

var effects = map[string]pb.TaintEffect{
	"":                 pb.TaintEffect_TAINT_EFFECT_UNSPECIFIED,
	"NoSchedule":       pb.TaintEffect_TAINT_EFFECT_NO_SCHEDULE,
	"PreferNoSchedule": pb.TaintEffect_TAINT_EFFECT_PREFER_NO_SCHEDULE,
	"NoExecute":        pb.TaintEffect_TAINT_EFFECT_NO_EXECUTE,
}

// isOlder is true if the object is of an earlier version: versions of one resource grow.
func (m *Meta) isOlder(other *Meta) bool {
	one, err := strconv.ParseUint(m.ResourceVersion, 10, 64)
	another, err2 := strconv.ParseUint(other.ResourceVersion, 10, 64)
	return err == nil && err2 == nil && one < another
}

// condition of this type; without a status if there is none.
func condition(all []Condition, kind string) Condition {
	for _, one := range all {
		if one.Type == kind {
			return one
		}
	}
	return Condition{}
}

func (n *Node) ready() Condition { return condition(n.Status.Conditions, "Ready") }

// isSilent is true if a controller found that the kubelet stopped posting.
func (n *Node) isSilent() bool {
	return n.ready().Status == "Unknown" && n.ready().Reason == "NodeStatusUnknown"
}

// zone that the node's labels put it in.
func (n *Node) zone() *pb.Zone {
	label := func(kind string) string {
		if value, found := n.Metadata.Labels["failure-domain.beta.kubernetes.io/"+kind]; found {
			return value
		}
		return n.Metadata.Labels["topology.kubernetes.io/"+kind]
	}
	return &pb.Zone{Region: label("region"), Zone: label("zone")}
}

// route is the printable key of a zone.
func route(zone *pb.Zone) string { return zone.GetRegion() + ":" + zone.GetZone() }

// bound is when the pod was bound, as the API tells it.
func (p *Pod) bound() time.Time {
	if one := condition(p.Status.Conditions, "PodScheduled"); one.Status == "True" && !one.LastTransitionTime.IsZero() {
		return one.LastTransitionTime
	}
	return p.Metadata.CreationTimestamp
}

func (p *Pod) needsMark() bool {
	ready := condition(p.Status.Conditions, "Ready").Status
	return ready == "True" || ready == "Unknown"
}

func (p *Pod) ref() *pb.PodRef {
	m := &p.Metadata
	target := condition(p.Status.Conditions, "DisruptionTarget").Status == "True"
	return &pb.PodRef{
		Namespace: m.Namespace, Name: m.Name, Uid: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation, DisruptionTarget: target,
	}
}

// same are the preconditions of a write.
func (m *Meta) same() map[string]any {
	return map[string]any{"uid": m.UID, "resourceVersion": m.ResourceVersion}
}

// === What a node should be ===

// patch is the one request that makes the node what its conditions say, with the NoSchedule taints and beta labels that belong to them;
// nil: it is that. Taints that stay keep their place; new ones go last.
func (n *Node) patch(now time.Time) map[string]any {
	is := func(kind string) bool { return condition(n.Status.Conditions, kind).Status == "True" }
	own := []struct {
		key  string
		want bool
	}{
		{notReady, n.ready().Status == "False"},
		{unreachable, n.ready().Status == "Unknown"},
		{"node.kubernetes.io/memory-pressure", is("MemoryPressure")},
		{"node.kubernetes.io/disk-pressure", is("DiskPressure")},
		{"node.kubernetes.io/pid-pressure", is("PIDPressure")},
		{"node.kubernetes.io/network-unavailable", is("NetworkUnavailable")},
		{"node.kubernetes.io/unschedulable", n.Spec.Unschedulable},
	}
	taints, differs := []Taint{}, false
	for _, taint := range n.Spec.Taints {
		keep := true
		for at := range own {
			if taint.Effect == "NoSchedule" && taint.Key == own[at].key {
				keep = own[at].want
				own[at].want = false
			}
		}
		if keep {
			taints = append(taints, taint)
		}
		differs = differs || !keep
	}
	for _, one := range own {
		if one.want {
			taints = append(taints, Taint{Key: one.key, Effect: "NoSchedule", TimeAdded: now.UTC().Format(time.RFC3339)})
			differs = true
		}
	}
	labels := map[string]string{}
	for _, kind := range []string{"os", "arch"} {
		value, found := n.Metadata.Labels["kubernetes.io/"+kind]
		if beta, same := n.Metadata.Labels["beta.kubernetes.io/"+kind]; found && (!same || beta != value) {
			labels["beta.kubernetes.io/"+kind] = value
		}
	}
	if !differs && len(labels) == 0 {
		return nil
	}
	meta := n.Metadata.same()
	if len(labels) > 0 {
		meta["labels"] = labels
	}
	patch := map[string]any{"metadata": meta}
	if differs {
		patch["spec"] = map[string]any{"taints": taints}
	}
	return patch
}
