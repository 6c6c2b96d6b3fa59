package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Watch lists and then follows what is at a path of the API server.
type Watch[T any] struct {
	kube *Kubernetes
	path string
	// What to do with a whole list, and with one change ("ADDED", "MODIFIED" or "DELETED").
	listed  func([]*T)
	changed func(string, *T)
	sign    *Sign
	version string
}

type event struct {
	Type   string
	Object json.RawMessage
}

func (w *Watch[T]) run() {
	var pause Backoff
	for {
		err := w.follow()
		if err == nil {
			pause = 0
			continue
		}
		log.Printf("%s cannot be watched: %v", w.path, err)
		if codeOf(err) == http.StatusGone {
			w.version = "" // too far behind: list again
		}
		pause.wait()
	}
}

// follow lists, unless it knows where to go on, and watches once; nil: the watch ended in good order.
func (w *Watch[T]) follow() error {
	if w.version == "" {
		var list struct {
			Metadata Meta
			Items    []*T
		}
		if err := w.kube.request(30*time.Second, http.MethodGet, w.path, nil, &list); err != nil {
			return err
		}
		w.sign.set()
		w.listed(list.Items)
		w.version = list.Metadata.ResourceVersion
	}
	// A watch that stalls without breaking ends here.
	ctx, cancel := context.WithTimeout(context.Background(), watchFor+5*time.Second)
	defer cancel()
	query := url.Values{"watch": {"1"}, "allowWatchBookmarks": {"1"}, "timeoutSeconds": {"45"}, "resourceVersion": {w.version}}
	separator := "?"
	if strings.Contains(w.path, "?") {
		separator = "&"
	}
	stream, err := w.kube.open(ctx, http.MethodGet, w.path+separator+query.Encode(), nil)
	if err != nil {
		return err
	}
	defer stream.Close()
	w.sign.set()
	opened, events := time.Now(), json.NewDecoder(stream)
	for {
		var event event
		if err := events.Decode(&event); errors.Is(err, io.EOF) && time.Since(opened) > time.Second {
			w.sign.set()
			return nil
		} else if err != nil {
			return err
		}
		if err := w.take(event); err != nil {
			return err
		}
		w.sign.set()
	}
}

func (w *Watch[T]) take(event event) error {
	if event.Type == "ERROR" {
		var refusal Refusal
		err := json.Unmarshal(event.Object, &refusal)
		w.version = "" // whatever it is, a list mends it
		return errors.Join(&refusal, err)
	}
	var head struct{ Metadata Meta }
	if err := json.Unmarshal(event.Object, &head); err != nil {
		return err
	}
	if event.Type != "BOOKMARK" {
		var object T
		if err := json.Unmarshal(event.Object, &object); err != nil {
			w.version = ""
			return err
		}
		w.changed(event.Type, &object)
	}
	w.version = head.Metadata.ResourceVersion
	return nil
}
