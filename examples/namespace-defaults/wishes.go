package main

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "namespace-defaults/bailiffv1"
)

// What is published about a node: NodeIsolation, key node/<name>, from verdicts alone.

// Wish is that a node is isolated.
type Wish struct {
	isolation *pb.NodeIsolation
	origin    Origin
}

// takeHealth takes in what is said of nodes' health.
func (m *Manager) takeHealth(set Set) {
	if set.Snapshot {
		m.health = map[string]bool{}
	}
	for _, record := range set.Records {
		name := record.Key
		if record.GetTombstone() != nil { // for whatever reason
			delete(m.health, name)
			delete(m.heldZones, name)
			if set.Complete {
				m.unwish(name)
			}
			continue
		}
		m.health[name] = true
		if health := record.GetNodeHealth(); health != nil && isUnderstood(record) {
			delete(m.heldZones, name)
			if health.Held != nil {
				m.heldZones[name] = route(health.Zone)
			}
			m.judgeHealth(name, health, Origin{record.Revision, set.Incarnation, record.Traceparent})
		} // else nothing is changed: what stands is older than that record, and the zone-evictor holds it
	}
	if set.Complete && (set.Snapshot || !m.isComplete) {
		for name := range m.wishes {
			if !m.health[name] {
				m.unwish(name)
			}
		}
		for name := range m.heldZones {
			if !m.health[name] {
				delete(m.heldZones, name)
			}
		}
	}
	m.isComplete = set.Complete
}

// judgeHealth answers every record, also one in which nothing changed: a wish is never older than its node's newest record.
func (m *Manager) judgeHealth(name string, health *pb.NodeHealth, origin Origin) {
	before := m.wishes[name]
	if before != nil && before.isolation.Node.GetUid() != health.Node.GetUid() {
		before = nil
	}
	wish := &pb.NodeIsolation{Node: health.Node, Zone: health.Zone}
	switch reason := health.Ready.GetReason(); {
	case health.Verdict == pb.Verdict_VERDICT_NOT_READY:
		wish.Taint = pb.HealthTaint_HEALTH_TAINT_NOT_READY
		wish.Cause = fmt.Sprintf("The kubelet reports Ready=False (%.900s)", reason)
	case health.Verdict == pb.Verdict_VERDICT_UNREACHABLE && health.LastSignOfLife != nil:
		wish.Taint = pb.HealthTaint_HEALTH_TAINT_UNREACHABLE
		wish.Cause = "No sign of life since " + health.LastSignOfLife.Time.AsTime().Format(time.RFC3339)
	case health.Verdict == pb.Verdict_VERDICT_UNREACHABLE:
		wish.Taint = pb.HealthTaint_HEALTH_TAINT_UNREACHABLE
		wish.Cause = fmt.Sprintf("Ready is Unknown (%.900s)", reason)
	case health.Verdict == pb.Verdict_VERDICT_HEALTHY || health.Ready.GetStatus() == pb.ReadyStatus_READY_STATUS_TRUE || before == nil:
		m.unwish(name)
		return
	default: // LATE or NO_STATUS: what stood, stands
		wish.Taint, wish.Cause = before.isolation.Taint, before.isolation.Cause
	}
	if before == nil || before.origin != origin {
		m.wish(name, &Wish{wish, origin})
	}
}

func (m *Manager) wish(name string, wish *Wish) {
	now := time.Now()
	m.wishes[name] = wish
	isolation := proto.CloneOf(wish.isolation)
	isolation.DecidedAt = timestamppb.New(now)
	m.publisher.say("node/"+name, now, &pb.Envelope{
		Route: route(isolation.Zone), Traceparent: wish.origin.trace, DerivedFrom: wish.origin.revision,
		DerivedFromIncarnation: wish.origin.incarnation, Body: &pb.Envelope_NodeIsolation{NodeIsolation: isolation},
	})
}

func (m *Manager) unwish(name string) {
	if m.wishes[name] != nil {
		delete(m.wishes, name)
		m.publisher.say("node/"+name, time.Now(), nil)
	}
}

// === The beginning: what the bus remembers of the process before this one ===

// begin takes over what was said before, and decides from then on, once everything is known that is needed for it.
func (m *Manager) begin() {
	if m.nodesListed && m.podsListed && m.spacesListed && m.inherited != nil && m.deciding.IsZero() {
		m.inherit()
		m.deciding = time.Now()
		for _, pod := range m.pods {
			m.judge(pod, pod.bound, true)
		}
	}
	// From then on a wish that is missing means something; hand-made taints do not wait for verdicts for ever.
	if !m.opened && !m.deciding.IsZero() && (m.isComplete || time.Since(m.deciding) > waitForHealth) {
		m.opened = true
		go m.publisher.run()
	}
}

const waitForHealth = 30 * time.Second

func (m *Manager) inherit() {
	remembered := map[*KnownNode][]Standing{}
	for _, record := range m.inherited.Records {
		if !isUnderstood(record) {
			continue
		}
		if wish := record.GetNodeIsolation(); wish != nil && !m.isComplete && !m.health[wish.Node.GetName()] {
			m.wish(wish.Node.GetName(), &Wish{wish, Origin{record.DerivedFrom, record.DerivedFromIncarnation, record.Traceparent}})
		}
		if eviction := record.GetPodEviction(); eviction != nil {
			m.inheritPod(record, eviction, remembered)
		}
	}
	for node, taints := range remembered {
		if node.object == nil {
			node.taints = taints
		}
		for at := range node.taints {
			if known := known(taints, node.taints[at].Taint); known != nil && !node.taints[at].live {
				node.taints[at].since = known.since
			}
		}
	}
}

// inheritPod: since when the pod's taints count, and until when it stays. The record tells it by a clock that is read nowhere else: only
// differences of its times are used, and how old it is. One without an age counts as just made.
func (m *Manager) inheritPod(record *pb.Envelope, eviction *pb.PodEviction, remembered map[*KnownNode][]Standing) {
	pod, state := m.pods[eviction.Pod.GetUid()], eviction.State
	if pod == nil || state == pb.IntentState_INTENT_STATE_WITHDRAWN || pod.object.Spec.NodeName != eviction.Node.GetName() {
		return
	}
	node := pod.node
	if node.uid == "" { // it is gone
		node.uid, node.zone = eviction.Node.Uid, eviction.Zone
	}
	if node.uid != eviction.Node.Uid {
		return
	}
	made := m.inheritedAt.Add(-record.Age.AsDuration())
	moment := func(at *timestamppb.Timestamp) time.Time {
		return made.Add(at.AsTime().Sub(eviction.DecidedAt.AsTime()))
	}
	oldest := time.Now()
	for _, one := range eviction.Cause.GetTaints() {
		if one.Since == nil {
			continue
		}
		taint, since := Taint{Key: one.Key, Value: one.Value, Effect: "NoExecute"}, moment(one.Since)
		if used := pod.object.used(taint); used >= 0 {
			_, spent := m.defaults.term(&pod.object.Spec.Tolerations[used], pod.space.seconds)
			since = since.Add(spent)
		}
		since = earlier(since, time.Now())
		oldest = earlier(oldest, since)
		if known := exactly(remembered[node], taint); known != nil {
			known.since = earlier(known.since, since)
		} else {
			remembered[node] = append(remembered[node], Standing{taint, since, false})
		}
	}
	if eviction.Trigger == pb.EvictionTrigger_EVICTION_TRIGGER_EXPIRED {
		pod.armed = &Armed{oldest, moment(eviction.DueAt)}
	}
}
