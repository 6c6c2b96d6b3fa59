package main

import (
	"testing"
	"time"
)

func TestTerm(t *testing.T) {
	number := func(of int64) *int64 { return &of }
	byDefault := Toleration{Key: unreachable, Operator: "Exists", Effect: "NoExecute", TolerationSeconds: number(300)}
	cases := []struct {
		name        string
		change      func(*Toleration)
		namespace   *int64
		stay, spent int64 // seconds; stay -1: for ever
	}{
		{"no label", func(*Toleration) {}, nil, 300, 0},
		{"shorter", func(*Toleration) {}, number(60), 60, 240},
		{"at once", func(*Toleration) {}, number(0), 0, 300},
		{"longer", func(*Toleration) {}, number(900), 900, 0},
		{"its own time", func(one *Toleration) { one.TolerationSeconds = number(120) }, number(60), 120, 0},
		{"for ever", func(one *Toleration) { one.TolerationSeconds = nil }, number(60), -1, 0},
		{"of every taint", func(one *Toleration) { one.Key = "" }, number(60), 300, 0},
		{"of a taint made by hand", func(one *Toleration) { one.Key = "example.com/maintenance" }, number(60), 300, 0},
	}
	for _, one := range cases {
		toleration := byDefault
		one.change(&toleration)
		stay, spent := Defaults(300).term(&toleration, one.namespace)
		if (stay == nil) != (one.stay < 0) || stay != nil && *stay != time.Duration(one.stay)*time.Second {
			t.Errorf("%s: it stays for %v", one.name, stay)
		}
		if spent != time.Duration(one.spent)*time.Second {
			t.Errorf("%s: %v are spent", one.name, spent)
		}
	}
}

func TestATimeThatRunsIsNotShortened(t *testing.T) {
	pod, start := &Pod{}, time.Now()
	number := func(of int64) *int64 { return &of }
	pod.Spec.Tolerations = []Toleration{{Key: unreachable, Operator: "Exists", Effect: "NoExecute", TolerationSeconds: number(300)}}
	taints := []Standing{{Taint{Key: unreachable, Effect: "NoExecute"}, start, true}}
	var armed *Armed
	for _, one := range []struct{ label, ends time.Duration }{{60, 60}, {30, 60}, {900, 900}, {60, 900}} {
		label := int64(one.label)
		armed = Defaults(300).judge(taints, pod, &label, armed, start).armed
		if left := armed.due.Sub(start); left != one.ends*time.Second {
			t.Errorf("label %d: it ends after %v", label, left)
		}
	}
	taints = append(taints, Standing{Taint{Key: "example.com/gone", Effect: "NoExecute"}, start, true})
	if found := Defaults(300).judge(taints, pod, nil, armed, start); found.armed != nil || found.clear || found.index != 1 {
		t.Errorf("nothing tolerates it: %+v", found)
	}
}

func TestAPauseThatCannotBeReadIsOneOfEverything(t *testing.T) {
	now := time.Now()
	until := now.Add(time.Hour).UTC().Format(time.RFC3339)
	for text, paused := range map[string]bool{
		`{"node":"a","until":"` + until + `","reason":"r"}`:              true,
		`{"node":"b","until":"` + until + `","reason":"r"}`:              false,
		`{"zone":"r:z","until":"` + until + `","reason":"r"}`:            true,
		`{"all":true,"until":"2001-01-01T00:00:00Z","reason":"r"}`:       false,
		`{"node":"b","until":"` + until + `","reason":"r","sort":"new"}`: true,
		`{"node":"b","all":false,"until":"` + until + `","reason":"r"}`:  true,
		`{"node":"b","reason":"r"}`:                                      true,
		`nothing`:                                                        true,
	} {
		var pauses Pauses
		pauses.set(&ConfigMap{Data: map[string]string{"key": text}}, now)
		if why := pauses.covers("a", "r:z", now); (why != "") != paused {
			t.Errorf("%s: %q", text, why)
		}
	}
}
