package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Pause is one that `bailiff pause` put into the ConfigMap of pauses.
type Pause struct {
	All        *bool
	Zone, Node *string
	Until      time.Time
	Since      *time.Time
	Reason, By string
	// It lasts so long by this process's own clock, and if the wall clock does not show its end by then, until here at most.
	least, most time.Time
}

// Pauses are those that stand, by their text.
type Pauses struct {
	known map[string]*Pause
	// Why everything is paused: something cannot be read.
	unreadable error
	wasRead    bool
}

const longestPause = 365 * 24 * time.Hour

// set takes in the ConfigMap; nil: there is none.
func (p *Pauses) set(config *ConfigMap, now time.Time) {
	known := map[string]*Pause{}
	p.unreadable = nil
	if config != nil {
		if len(config.BinaryData) > 0 {
			p.unreadable = errors.New("binaryData holds no pauses")
		}
		for key, text := range config.Data {
			pause, err := p.known[text], error(nil)
			if pause == nil {
				pause, err = parsePause(text, now, p.wasRead)
			}
			if err != nil {
				p.unreadable = fmt.Errorf("pause %s cannot be read: %w", key, err)
			} else {
				known[text] = pause
			}
		}
	}
	p.known, p.wasRead = known, true
}

// parsePause reads one. `live`: it was seen to appear, and lasts as long as it says; else what is left of it by the wall clock counts.
func parsePause(text string, now time.Time, live bool) (*Pause, error) {
	pause, fields := &Pause{}, json.NewDecoder(bytes.NewBufferString(text))
	fields.DisallowUnknownFields()
	if err := fields.Decode(pause); err != nil {
		return nil, err
	}
	scopes := 0
	for _, is := range []bool{pause.All != nil && *pause.All, pause.Zone != nil, pause.Node != nil} {
		if is {
			scopes++
		}
	}
	if scopes != 1 || pause.All != nil && !*pause.All || pause.Until.IsZero() || pause.Reason == "" || fields.More() {
		return nil, errors.New("what is paused, until when or why is not there")
	}
	left := pause.Until.Sub(now)
	lasts := left
	if pause.Since != nil {
		lasts = pause.Until.Sub(*pause.Since)
	}
	lasts = min(lasts, longestPause)
	pause.most = now.Add(lasts)
	pause.least = pause.most
	if !live {
		pause.least = now.Add(min(left, lasts))
	}
	return pause, nil
}

// covers says why nothing that harms the node is begun; empty: nothing is paused.
func (p *Pauses) covers(node, zone string, now time.Time) string {
	if !p.wasRead {
		return "pauses are not read yet"
	}
	if p.unreadable != nil {
		return p.unreadable.Error()
	}
	for _, one := range p.known {
		lasts := now.Before(one.least) || now.Round(0).Before(one.Until) && now.Before(one.most)
		if lasts && (one.All != nil || one.Zone != nil && *one.Zone == zone || one.Node != nil && *one.Node == node) {
			return fmt.Sprintf("paused: %.256s, by %s", one.Reason, one.By)
		}
	}
	return ""
}
