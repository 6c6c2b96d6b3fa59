package main

import (
	"fmt"
	"reflect"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "namespace-defaults/bailiffv1"
)

// What is published about a pod: PodEviction, key pod/<uid>.

const mostInCause = 256

// Told is the last word about a pod.
type Told struct {
	digest  string
	state   pb.IntentState
	trigger pb.EvictionTrigger
	due     time.Time
	origin  Origin
}

// Origin is the record that another one follows from.
type Origin struct {
	revision           uint64
	incarnation, trace string
}

// === Namespaces and pods come, change and go ===

func (m *Manager) space(name string) *Space {
	if m.spaces[name] == nil {
		m.spaces[name] = &Space{pods: map[string]*KnownPod{}}
	}
	return m.spaces[name]
}

func (m *Manager) listNamespaces(namespaces []*Namespace) {
	there := map[string]bool{}
	for _, namespace := range namespaces {
		there[namespace.Metadata.Name] = true
		m.setSeconds(namespace.Metadata.Name, secondsOf(namespace))
	}
	for name := range m.spaces {
		if !there[name] {
			m.setSeconds(name, nil)
		}
	}
	m.spacesListed = true
}

// setSeconds: the namespace says something else than before. A time that runs is not shortened by it.
func (m *Manager) setSeconds(name string, seconds *int64) {
	space := m.space(name)
	if reflect.DeepEqual(space.seconds, seconds) {
		return
	}
	space.seconds = seconds
	for _, pod := range space.pods {
		m.judge(pod, time.Now(), false)
	}
}

func (m *Manager) listPods(pods []*Pod) {
	there := map[string]bool{}
	for _, pod := range pods {
		there[pod.Metadata.UID] = true
		m.takePod(pod, !m.podsListed)
	}
	for uid := range m.pods {
		if !there[uid] {
			m.dropPod(uid)
		}
	}
	m.podsListed = true
	m.finishMarking()
}

// seePod takes in a change that the watch shows, unless the answer to a write showed what came after it.
func (m *Manager) seePod(kind string, pod *Pod) {
	known := m.pods[pod.Metadata.UID]
	if kind == "DELETED" {
		m.dropPod(pod.Metadata.UID)
	} else if known == nil || !pod.Metadata.isOlder(&known.object.Metadata) {
		m.takePod(pod, false)
	}
}

// answerPod takes in the answer to a request of ours. What is gone by now does not come back by it.
func (m *Manager) answerPod(pod *Pod) {
	if m.pods[pod.Metadata.UID] != nil {
		m.seePod("MODIFIED", pod)
	}
}

func (m *Manager) takePod(object *Pod, first bool) {
	now, uid, name := time.Now(), object.Metadata.UID, object.Spec.NodeName
	pod := m.pods[uid]
	if pod != nil && pod.object.Spec.NodeName != name {
		m.dropPod(uid)
		pod = nil
	}
	if pod != nil {
		before := pod.object
		pod.object, pod.mark = object, pod.mark && object.needsMark()
		if !reflect.DeepEqual(before.Spec.Tolerations, object.Spec.Tolerations) {
			m.judge(pod, now, false)
		}
		return
	}
	if name == "" {
		return // it is on no node
	}
	pod = &KnownPod{object: object, node: m.node(name), space: m.space(object.Metadata.Namespace), bound: now}
	m.pods[uid], pod.node.pods[uid], pod.space.pods[uid] = pod, pod, pod
	if first {
		pod.bound = past(object.bound(), now)
	} else if node := pod.node.object; node != nil && isDown(node) && object.needsMark() {
		pod.mark, m.wanted["pod/"+uid] = true, true
	}
	m.judge(pod, now, false)
}

func (m *Manager) dropPod(uid string) {
	pod := m.pods[uid]
	if pod == nil {
		return
	}
	if pod.timer != nil {
		pod.timer.Stop()
	}
	if pod.told != nil {
		m.publisher.say("pod/"+uid, time.Now(), nil)
	}
	delete(m.pods, uid)
	delete(pod.node.pods, uid)
	delete(pod.space.pods, uid)
	if pod.node.object == nil && len(pod.node.pods) == 0 {
		delete(m.nodes, pod.object.Spec.NodeName)
	}
}

// === What should become of them ===

// judge looks at one pod; a time that does not run yet counts from `arming`. `inherited`: its node may be gone. What ran because of that
// goes on, and nothing begins.
func (m *Manager) judge(pod *KnownPod, arming time.Time, inherited bool) {
	now := time.Now()
	isOver := pod.armed != nil && !pod.armed.due.After(now)
	if m.deciding.IsZero() || pod.node.object == nil && !isOver && !inherited {
		return
	}
	if pod.timer != nil {
		pod.timer.Stop()
	}
	judgement := m.defaults.judge(pod.node.taints, pod.object, pod.space.seconds, pod.armed, arming)
	pod.armed = judgement.armed
	word := Told{state: pb.IntentState_INTENT_STATE_DUE, trigger: pb.EvictionTrigger_EVICTION_TRIGGER_EXPIRED}
	if judgement.clear {
		m.withdraw(pod, now)
		return
	}
	if pod.armed == nil {
		word.trigger, word.due = pb.EvictionTrigger_EVICTION_TRIGGER_UNTOLERATED, now
		if told := pod.told; told != nil && told.trigger == word.trigger && told.state == word.state {
			word.due = told.due
		}
	} else if word.due = pod.armed.due; word.due.After(now) {
		word.state = pb.IntentState_INTENT_STATE_SCHEDULED
		pod.timer = time.AfterFunc(word.due.Sub(now), func() {
			m.inbox <- func() {
				if m.pods[pod.object.Metadata.UID] == pod {
					m.judge(pod, time.Now(), false)
				}
			}
		})
	}
	wish := m.wishes[pod.object.Spec.NodeName]
	if isHealth(pod.node.taints[judgement.index].Key) && wish != nil && wish.isolation.Node.Uid == pod.node.uid {
		word.origin = wish.origin
	}
	m.tell(pod, now, word, pb.WithdrawnReason_WITHDRAWN_REASON_UNSPECIFIED)
}

// withdraw calls off what stands. The record stays until the pod is gone.
func (m *Manager) withdraw(pod *KnownPod, now time.Time) {
	if pod.told == nil || pod.told.state == pb.IntentState_INTENT_STATE_WITHDRAWN {
		return
	}
	reason := pb.WithdrawnReason_WITHDRAWN_REASON_TOLERATED
	if len(pod.node.taints) == 0 {
		reason = pb.WithdrawnReason_WITHDRAWN_REASON_TAINTS_GONE
	}
	word := *pod.told
	word.state = pb.IntentState_INTENT_STATE_WITHDRAWN
	m.tell(pod, now, word, reason)
}

// tell publishes a word, if it is news. Its moments are told by the clock as it is now, all of them.
func (m *Manager) tell(pod *KnownPod, now time.Time, word Told, reason pb.WithdrawnReason) {
	at := func(moment time.Time) *timestamppb.Timestamp { return timestamppb.New(now.Add(moment.Sub(now))) }
	node, cause, used := pod.node, &pb.EvictionCause{Kind: pb.EvictionCauseKind_EVICTION_CAUSE_KIND_TAINTS}, map[int]bool{}
	digest := fmt.Sprint(word.state, reason, word.trigger, word.due.Sub(processStart), node.uid, route(node.zone))
	for _, taint := range node.taints[:min(len(node.taints), mostInCause)] {
		since := taint.since
		if pod.armed != nil {
			since = later(since, pod.armed.since)
		}
		if index := pod.object.used(taint.Taint); index >= 0 {
			used[index] = true
			_, spent := m.defaults.term(&pod.object.Spec.Tolerations[index], pod.space.seconds)
			since = since.Add(-spent)
		}
		digest += fmt.Sprintf("|%s=%s@%d", taint.Key, taint.Value, since.Sub(processStart))
		one := &pb.Taint{Key: taint.Key, Value: taint.Value, Effect: effects[taint.Effect], Since: at(since)}
		cause.Taints = append(cause.Taints, one)
	}
	for index, one := range pod.object.Spec.Tolerations {
		if used[index] {
			tolerated := &pb.Toleration{
				Key: one.Key, Operator: one.Operator, Value: one.Value, Effect: effects[one.Effect], TolerationSeconds: one.TolerationSeconds,
			}
			cause.Tolerations = append(cause.Tolerations, tolerated)
			digest += fmt.Sprint("|", tolerated)
		}
	}
	if pod.told != nil && pod.told.digest == digest {
		return
	}
	word.digest = digest
	pod.told = &word
	eviction := &pb.PodEviction{
		Pod: pod.object.ref(), Node: &pb.NodeRef{Name: pod.object.Spec.NodeName, Uid: node.uid}, Zone: node.zone, Cause: cause,
		State: word.state, WithdrawnReason: reason, Trigger: word.trigger, DueAt: at(word.due), DecidedAt: timestamppb.New(now),
	}
	if node.object != nil {
		eviction.Node.ResourceVersion = node.object.Metadata.ResourceVersion
	}
	m.publisher.say("pod/"+pod.object.Metadata.UID, now, &pb.Envelope{
		Route: route(node.zone), Traceparent: word.origin.trace, DerivedFrom: word.origin.revision,
		DerivedFromIncarnation: word.origin.incarnation, Body: &pb.Envelope_PodEviction{PodEviction: eviction},
	})
}
