package main

import (
	"log"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// How many writes are under way at a time, and how long until one that failed is tried again, at most.
const (
	writesAtATime = 16
	longestRetry  = 30 * time.Second
)

// Task is a write that is under way, or failed and waits to be tried again.
type Task struct {
	busy     bool
	failures int
}

// === Marks: pods of a silent node are set to not ready, once ===

// readyChanged: condition Ready of the node is another one than it was.
func (m *Manager) readyChanged(node *KnownNode, before *Node) {
	if !isDown(node.object) {
		for _, pod := range node.pods {
			pod.mark = false
		}
	} else if before != nil && before.ready().Status == "True" && node.object.isSilent() {
		m.markAll(node)
	}
}

func isDown(node *Node) bool {
	return node.ready().Status == "False" || node.ready().Status == "Unknown"
}

// finishMarking sees to what was silent before this process began, once.
func (m *Manager) finishMarking() {
	if m.marked || !m.podsListed || !m.nodesListed {
		return
	}
	m.marked = true
	for _, node := range m.nodes {
		if node.object != nil && node.object.isSilent() {
			m.markAll(node)
		}
	}
}

func (m *Manager) markAll(node *KnownNode) {
	for uid, pod := range node.pods {
		if pod.object.needsMark() {
			pod.mark, m.wanted["pod/"+uid] = true, true
		}
	}
}

// why a pod of the node is not marked; empty: nothing holds it.
func (m *Manager) hold(name string, node *KnownNode) string {
	zone := route(node.zone)
	for _, held := range m.heldZones {
		if held == zone {
			return "leases of zone " + zone + " stopped together"
		}
	}
	if m.pausesStale {
		return "pauses are not fresh"
	}
	return m.pauses.covers(name, zone, time.Now())
}

// === Writes ===

// write makes the writes that are wanted, each by what is true at this moment.
func (m *Manager) write() {
	for key := range m.wanted {
		if m.running >= writesAtATime || m.stopping {
			return
		}
		delete(m.wanted, key)
		if task := m.tasks[key]; task != nil && task.busy {
			continue // it is looked at again when that has ended
		}
		if name, isNode := strings.CutPrefix(key, "node/"); isNode {
			m.writeNode(key, name)
		} else {
			m.writePod(key, key[len("pod/"):])
		}
		if task := m.tasks[key]; task != nil && !task.busy {
			delete(m.tasks, key) // nothing is to be written any more
		}
	}
}

func (m *Manager) writeNode(key, name string) {
	known := m.nodes[name]
	if known == nil || known.object == nil {
		return
	}
	if patch := known.object.patch(time.Now()); patch != nil {
		start(m, key, "/api/v1/nodes/"+name, "", patch, m.answerNode)
	}
}

func (m *Manager) writePod(key, uid string) {
	pod := m.pods[uid]
	if pod == nil || !pod.mark || pod.node.object == nil {
		return
	}
	if why := m.hold(pod.object.Spec.NodeName, pod.node); why != "" {
		m.held[key] = true
		return
	}
	meta := &pod.object.Metadata
	ready := map[string]any{"type": "Ready", "status": "False", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}
	patch := map[string]any{"metadata": meta.same(), "status": map[string]any{"conditions": []any{ready}}}
	start(m, key, "/api/v1/namespaces/"+meta.Namespace+"/pods/"+meta.Name, "/status", patch, m.answerPod)
}

// start sends one patch; `see` takes in what the object is then, or after a conflict was meanwhile.
func start[T any](m *Manager, key, path, part string, patch any, see func(*T)) {
	if m.tasks[key] == nil {
		m.tasks[key] = &Task{}
	}
	m.tasks[key].busy = true
	m.running++
	go func() {
		object := new(T)
		err := m.kube.request(writeWithin, http.MethodPatch, path+part, patch, object)
		found := err == nil
		if codeOf(err) == http.StatusConflict {
			found = m.kube.request(writeWithin, http.MethodGet, path, nil, object) == nil
		}
		m.inbox <- func() { m.ended(key, err, func() { see(object) }, found) }
	}()
}

func (m *Manager) ended(key string, err error, see func(), found bool) {
	m.running--
	if found {
		see()
	}
	switch task := m.tasks[key]; {
	case err == nil:
		if pod := m.pods[strings.TrimPrefix(key, "pod/")]; pod != nil {
			pod.mark = false // once
		}
		delete(m.tasks, key)
		m.wanted[key] = true // is there more to do?
	case codeOf(err) == http.StatusNotFound:
		delete(m.tasks, key)
	default:
		log.Printf("%s cannot be written: %v", key, err)
		pause := min(100*time.Millisecond<<min(task.failures, 9), longestRetry)
		task.failures++
		time.AfterFunc(pause+rand.N(pause/2), func() {
			m.inbox <- func() { task.busy, m.wanted[key] = false, true }
		})
	}
}
