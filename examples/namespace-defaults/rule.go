package main

import (
	"log"
	"math"
	"strconv"
	"time"
)

// Label of a Namespace: for how many seconds its pods stay on a node that is not ready or unreachable, where they do not say so
// themselves.
const Label = "bailiff.dev/toleration-seconds"

// Defaults is what kube-apiserver (admission plugin DefaultTolerationSeconds) gives to pods that say nothing themselves, in seconds.
type Defaults int64

// secondsOf reads the label; nil: there is none that is a whole number, from 0.
func secondsOf(namespace *Namespace) *int64 {
	text, found := namespace.Metadata.Labels[Label]
	if !found {
		return nil
	}
	seconds, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		log.Printf("Namespace %s: label %s=%q is no number of seconds, and is passed over", namespace.Metadata.Name, Label, text)
		return nil
	}
	value := int64(seconds)
	return &value
}

// isDefault is true for a toleration as the admission plugin makes it. One that somebody wrote in the same words looks the same.
func (d Defaults) isDefault(one *Toleration) bool {
	return isHealth(one.Key) && one.Operator == "Exists" && one.Effect == "NoExecute" &&
		one.TolerationSeconds != nil && *one.TolerationSeconds == int64(d)
}

// term is how long a pod stays under a taint because of the toleration that it uses (nil: for ever), and how much of the time that the
// toleration has counts as spent when the taint appears.
//
// The zone-evictor lets nobody evict a pod before the time in the pod's own toleration is over, and asks nobody but the taint-manager
// since when it counts. So a namespace's shorter time is the same time, counted from earlier.
func (d Defaults) term(used *Toleration, namespace *int64) (stay *time.Duration, spent time.Duration) {
	if used.TolerationSeconds == nil {
		return nil, 0
	}
	own := *used.TolerationSeconds
	if namespace == nil || !d.isDefault(used) {
		return seconds(own), 0
	}
	if *namespace < own {
		spent = time.Duration(own-*namespace) * time.Second
	}
	return seconds(*namespace), spent
}

// seconds as a time; nil is for ever: 64 bits of nanoseconds cannot hold it.
func seconds(count int64) *time.Duration {
	if count > math.MaxInt64/int64(time.Second) {
		return nil
	}
	span := time.Duration(max(count, 0)) * time.Second
	return &span
}

// tolerates is true if the toleration matches the taint. The first of a pod that does is the one that counts.
func (t *Toleration) tolerates(taint Taint) bool {
	if t.Key != "" && t.Key != taint.Key || t.Effect != "" && t.Effect != taint.Effect {
		return false
	}
	return t.Operator == "Exists" || (t.Operator == "" || t.Operator == "Equal") && t.Value == taint.Value
}

// used is the place of the toleration that counts; -1: nothing tolerates the taint.
func (p *Pod) used(taint Taint) int {
	for at := range p.Spec.Tolerations {
		if p.Spec.Tolerations[at].tolerates(taint) {
			return at
		}
	}
	return -1
}

// Standing is a NoExecute taint of a node, and since when it counts.
type Standing struct {
	Taint
	since time.Time
	// It was seen to appear: what the bus remembers is about an earlier one.
	live bool
}

// Armed is a time that runs, or ran out: since when the pod has been under finite tolerations without a break, and until when it stays.
type Armed struct{ since, due time.Time }

// Judgement is what a pod's tolerations say about the taints of its node.
type Judgement struct {
	// Nothing is to be done: everything, or what there is, is tolerated without limit.
	clear bool
	// The taint that decides.
	index int
	// The time that it leaves; nil: none, nothing tolerates it.
	armed *Armed
}

// judge looks at a pod: `armed` is the time that runs already, a new one counts from `arming`. A time that runs is never shortened, but
// by a taint that nothing tolerates.
func (d Defaults) judge(taints []Standing, pod *Pod, namespace *int64, armed *Armed, arming time.Time) Judgement {
	since := arming
	if armed != nil {
		since = armed.since
	}
	first, end := -1, time.Time{}
	for index, taint := range taints {
		at := pod.used(taint.Taint)
		if at < 0 {
			return Judgement{index: index}
		}
		if stay, _ := d.term(&pod.Spec.Tolerations[at], namespace); stay != nil {
			if over := later(taint.since, since).Add(*stay); first < 0 || over.Before(end) {
				first, end = index, over
			}
		}
	}
	if first < 0 {
		return Judgement{clear: true}
	}
	if armed != nil {
		end = later(end, armed.due)
	}
	return Judgement{index: first, armed: &Armed{since, end}}
}

// follow gives the NoExecute taints of a node their starts: one that was there before, by key and value, keeps its own, and so does one
// of the two health taints that takes the other's place; the others begin at `begin`.
func follow(before []Standing, taints []Taint, live bool, begin func(Taint) time.Time) []Standing {
	var standing []Standing
	for _, taint := range taints {
		if taint.Effect != "NoExecute" {
			continue
		}
		if known := known(before, taint); known != nil {
			standing = append(standing, Standing{taint, known.since, known.live})
		} else {
			standing = append(standing, Standing{taint, begin(taint), live})
		}
	}
	return standing
}

func known(before []Standing, taint Taint) *Standing {
	if one := exactly(before, taint); one != nil {
		return one
	}
	for at := range before {
		if one := &before[at]; isHealth(one.Key) && isHealth(taint.Key) && one.Key != taint.Key {
			return one
		}
	}
	return nil
}

func exactly(before []Standing, taint Taint) *Standing {
	for at := range before {
		if one := &before[at]; one.Key == taint.Key && one.Value == taint.Value {
			return one
		}
	}
	return nil
}

func later(one, other time.Time) time.Time {
	if one.Before(other) {
		return other
	}
	return one
}

func earlier(one, other time.Time) time.Time {
	if other.Before(one) {
		return other
	}
	return one
}
