// A taint-manager for Bailiff, in Go, in which a namespace says for how long its pods stay on a node that fails.
package main

import (
	"flag"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "namespace-defaults/bailiffv1"
)

func main() {
	log.SetFlags(log.LstdFlags | log.Lmicroseconds)
	address := flag.String("bus", environment("BAILIFF_BUS", "127.0.0.1:7460"), "host:port of the event bus")
	normal, err := strconv.ParseInt(environment("BAILIFF_DEFAULT_TOLERATION_SECONDS", "300"), 10, 32)
	defaults := flag.Int64("default-toleration-seconds", normal, "tolerationSeconds that kube-apiserver gives to pods without their own")
	flag.Parse()
	check(err)
	kube, err := connect()
	check(err)
	bus, err := dial(*address)
	check(err)
	run(kube, bus, Defaults(*defaults))
}

func environment(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func run(kube *Kubernetes, bus pb.EventBusClient, defaults Defaults) {
	host, err := os.Hostname()
	check(err)
	name := host + "-namespace-defaults-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	m := &Manager{
		kube: kube, defaults: defaults, inbox: make(chan func(), 1024),
		nodes: map[string]*KnownNode{}, pods: map[string]*KnownPod{}, spaces: map[string]*Space{},
		wishes: map[string]*Wish{}, health: map[string]bool{}, heldZones: map[string]string{},
		wanted: map[string]bool{}, held: map[string]bool{}, tasks: map[string]*Task{},
	}
	var turned, nodes, pods, namespaces, pauses Sign
	m.publisher = newPublisher(bus, "eviction-intents", name, func() *pb.Keepalive {
		report := &pb.Keepalive{}
		if age := turned.age(); age != nil {
			report.TickAge = durationpb.New(*age)
		}
		var overdue time.Duration
		for _, sign := range []*Sign{&nodes, &pods, &namespaces} {
			age := sign.age()
			if age == nil {
				return report
			}
			if *age > freshFor {
				overdue = max(overdue, *age)
			}
		}
		report.WatchAge = durationpb.New(overdue)
		return report
	})
	watch(m, "/api/v1/nodes", &nodes, m.listNodes, m.seeNode)
	watch(m, "/api/v1/pods", &pods, m.listPods, m.seePod)
	watch(m, "/api/v1/namespaces", &namespaces, m.listNamespaces, func(kind string, namespace *Namespace) {
		seconds := secondsOf(namespace)
		if kind == "DELETED" {
			seconds = nil
		}
		m.setSeconds(namespace.Metadata.Name, seconds)
	})
	pausesAt := "/api/v1/namespaces/kube-system/configmaps?fieldSelector=metadata.name%3Dbailiff-pauses"
	watch(m, pausesAt, &pauses, func(configs []*ConfigMap) {
		m.pauses.set(append(configs, nil)[0], time.Now())
	}, func(kind string, config *ConfigMap) {
		if kind == "DELETED" {
			config = nil
		}
		m.pauses.set(config, time.Now())
	})
	past := &Follower{bus: bus, topic: "eviction-intents", name: name, take: func(set Set) bool {
		at := time.Now()
		m.inbox <- func() { m.inherited, m.inheritedAt = &set, at }
		return true
	}}
	go past.run()
	health := &Follower{bus: bus, topic: "node-health", name: name, take: func(set Set) bool {
		m.inbox <- func() { m.takeHealth(set) }
		return false
	}}
	go health.run()

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	for second := time.NewTicker(time.Second); ; {
		select {
		case <-stop:
			m.stopping = true
			time.AfterFunc(2*writeWithin, func() { os.Exit(1) })
		case news := <-m.inbox:
			news()
		case <-second.C: // what was held may not be any more
			for key := range m.held {
				m.wanted[key] = true
			}
			clear(m.held)
		}
		age := pauses.age()
		m.pausesStale = age == nil || *age > freshFor
		turned.set()
		m.begin()
		m.write()
		if m.stopping && m.running == 0 {
			for range 20 { // the bus hears the last words
				if !m.opened || m.publisher.isSettled() {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			return
		}
	}
}

// watch follows what is at a path; what comes is looked at by the one goroutine that decides.
func watch[T any](m *Manager, path string, sign *Sign, listed func([]*T), changed func(string, *T)) {
	w := &Watch[T]{kube: m.kube, path: path, sign: sign,
		listed:  func(all []*T) { m.inbox <- func() { listed(all) } },
		changed: func(kind string, one *T) { m.inbox <- func() { changed(kind, one) } },
	}
	go w.run()
}
