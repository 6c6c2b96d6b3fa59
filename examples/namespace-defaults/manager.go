package main

import (
	"time"

	pb "namespace-defaults/bailiffv1"
)

// KnownNode is a node by its name: there, or gone and not forgotten while it has pods.
type KnownNode struct {
	object *Node // nil: gone
	uid    string
	zone   *pb.Zone
	taints []Standing
	pods   map[string]*KnownPod
}

// KnownPod is a pod that is bound.
type KnownPod struct {
	object *Pod
	node   *KnownNode
	space  *Space
	// Since when it is bound; its time counts from there if it runs already when this process begins.
	bound time.Time
	armed *Armed
	timer *time.Timer
	told  *Told
	// Its condition Ready is to be set to False.
	mark bool
}

// Space is a namespace.
type Space struct {
	seconds *int64
	pods    map[string]*KnownPod
}

// Manager decides. Everything in it belongs to one goroutine; the others carry what they hear to its inbox, and what it wants to the
// API server and the bus.
type Manager struct {
	kube      *Kubernetes
	publisher *Publisher
	defaults  Defaults
	inbox     chan func()

	nodes  map[string]*KnownNode
	pods   map[string]*KnownPod
	spaces map[string]*Space
	pauses Pauses

	nodesListed, podsListed, spacesListed, pausesStale bool
	inherited                                          *Set
	inheritedAt                                        time.Time
	// Since when intents are decided; zero: not yet.
	deciding time.Time

	wishes     map[string]*Wish
	health     map[string]bool   // nodes that there is a record of
	heldZones  map[string]string // by the node whose record holds it
	isComplete bool
	opened     bool

	// Keys of what may have to be written, and of what waits because something holds it.
	wanted, held map[string]bool
	tasks        map[string]*Task
	running      int
	stopping     bool
	marked       bool // what was silent before this process began was seen to
}

// === Nodes ===

func (m *Manager) node(name string) *KnownNode {
	if m.nodes[name] == nil {
		m.nodes[name] = &KnownNode{pods: map[string]*KnownPod{}}
	}
	return m.nodes[name]
}

func (m *Manager) listNodes(nodes []*Node) {
	there := map[string]bool{}
	for _, node := range nodes {
		there[node.Metadata.Name] = true
		m.takeNode(node, !m.nodesListed)
	}
	for name, known := range m.nodes {
		if known.object != nil && !there[name] {
			m.dropNode(name, known.uid)
		}
	}
	m.nodesListed = true
	m.finishMarking()
}

// seeNode takes in a change that the watch shows, unless the answer to a write showed what came after it.
func (m *Manager) seeNode(kind string, node *Node) {
	known := m.nodes[node.Metadata.Name]
	if kind == "DELETED" {
		m.dropNode(node.Metadata.Name, node.Metadata.UID)
	} else if known == nil || known.object == nil || !node.Metadata.isOlder(&known.object.Metadata) {
		m.takeNode(node, false)
	}
}

// answerNode takes in the answer to a request of ours. What is gone by now does not come back by it.
func (m *Manager) answerNode(node *Node) {
	if known := m.nodes[node.Metadata.Name]; known != nil && known.object != nil && known.uid == node.Metadata.UID {
		m.seeNode("MODIFIED", node)
	}
}

func (m *Manager) takeNode(node *Node, first bool) {
	now, name := time.Now(), node.Metadata.Name
	known := m.node(name)
	before := known.object
	if known.uid != "" && known.uid != node.Metadata.UID { // another one: it inherits nothing
		before, known.taints = nil, nil
		for _, pod := range known.pods {
			pod.armed, pod.mark = nil, false
		}
	}
	taints := follow(known.taints, node.Spec.Taints, !first, func(taint Taint) time.Time {
		added, err := time.Parse(time.RFC3339, taint.TimeAdded)
		if !first || err != nil {
			return now
		}
		return past(later(added, node.Metadata.CreationTimestamp), now)
	})
	zone := node.zone()
	news := before == nil || route(zone) != route(known.zone) || !sameTaints(taints, known.taints)
	known.object, known.uid, known.zone, known.taints = node, node.Metadata.UID, zone, taints
	if before == nil || before.ready().Status != node.ready().Status {
		m.readyChanged(known, before)
	}
	m.wanted["node/"+name] = true
	if news {
		for _, pod := range known.pods {
			m.judge(pod, now, false)
		}
	}
}

func (m *Manager) dropNode(name, uid string) {
	known := m.nodes[name]
	if known == nil || known.uid != uid {
		return
	}
	known.object = nil // its taints stay as they were: what runs goes on
	for _, pod := range known.pods {
		pod.mark = false
	}
	if len(known.pods) == 0 {
		delete(m.nodes, name)
	}
}

func sameTaints(some, others []Standing) bool {
	if len(some) != len(others) {
		return false
	}
	for at := range some {
		if some[at].Taint != others[at].Taint {
			return false
		}
	}
	return true
}

// past is a moment that only the API tells of, by this process's own clock; it is not later than now.
func past(wall, now time.Time) time.Time { return now.Add(-max(now.Sub(wall), 0)) }
