package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "namespace-defaults/bailiffv1"
)

const (
	openWithin = 5 * time.Second
	lostAfter  = 10 * time.Second
)

// dial connects to the bus: by mutual TLS if there is a certificate, else in plain text.
func dial(address string) (pb.EventBusClient, error) {
	security := insecure.NewCredentials()
	if file := os.Getenv("BAILIFF_TLS_CERT_FILE"); file != "" {
		ca, err := os.ReadFile(os.Getenv("BAILIFF_TLS_CA_FILE"))
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(ca)
		own := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(file, os.Getenv("BAILIFF_TLS_PRIVATE_KEY_FILE")) // renewed now and then
			return &pair, err
		}
		security = credentials.NewTLS(&tls.Config{RootCAs: pool, GetClientCertificate: own})
	}
	pauses := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, Jitter: 0.5, MaxDelay: 3200 * time.Millisecond}
	connection, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(security),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pauses, MinConnectTimeout: openWithin}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: lostAfter, Timeout: openWithin}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(8<<20)))
	if err != nil {
		return nil, err
	}
	return pb.NewEventBusClient(connection), nil
}

// Set is what was true at one moment: of a topic, or what changed of it.
type Set struct {
	// All that there is, and not only what changed.
	Snapshot bool
	Records  []*pb.Envelope
	// Incarnation of the bus that gave the records' revisions.
	Incarnation string
	// All shards have said all that they have to say: a key that is missing means something.
	Complete bool
}

// Follower follows one topic.
type Follower struct {
	bus         pb.EventBusClient
	topic, name string
	// Takes a whole set; true: that is enough.
	take        func(Set) bool
	cursor      string
	incarnation string
	shards      map[uint32]*pb.ShardStatus
	answered    bool
}

// run ends when `take` has enough.
func (f *Follower) run() {
	var pause Backoff
	for {
		f.answered = false
		done, err := f.stream()
		if done {
			return
		}
		if f.answered {
			pause = 0
		}
		if f.answered && err == nil {
			continue // it ended in good order
		}
		if status.Code(err) == codes.InvalidArgument {
			f.cursor = "" // if it was that, a snapshot heals it
		}
		log.Printf("Topic %s cannot be followed: %v", f.topic, err)
		pause.wait()
	}
}

func (f *Follower) stream() (bool, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	silence := time.AfterFunc(openWithin, cancel)
	defer silence.Stop()
	stream, err := f.bus.Subscribe(ctx, &pb.SubscribeRequest{Topics: []string{f.topic}, Cursor: f.cursor, Subscriber: f.name})
	if err != nil {
		return false, err
	}
	var set Set // one that broke off is void
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		silence.Reset(lostAfter)
		whole, cursor := false, ""
		switch step := response.Step.(type) {
		case *pb.SubscribeResponse_SnapshotStart:
			f.incarnation, f.shards = step.SnapshotStart.Incarnation, map[uint32]*pb.ShardStatus{}
			set = Set{Snapshot: true}
		case *pb.SubscribeResponse_Changes:
			set.Records = append(set.Records, step.Changes.Records...)
			f.heard(step.Changes.Shards)
			whole, cursor = !step.Changes.More && !set.Snapshot, step.Changes.Cursor
		case *pb.SubscribeResponse_Boundary: // a snapshot is taken in one piece
			f.answered = true
			whole, cursor = true, step.Boundary.Cursor
		case *pb.SubscribeResponse_Bookmark:
			f.shards = map[uint32]*pb.ShardStatus{}
			f.heard(step.Bookmark.Shards)
			whole, cursor = true, step.Bookmark.Cursor
		}
		if whole {
			set.Incarnation, set.Complete, f.cursor = f.incarnation, f.isComplete(), cursor
			if f.take(set) {
				return true, nil
			}
			set = Set{}
		}
	}
}

// heard takes in states of shards. Those of another layout are void.
func (f *Follower) heard(shards []*pb.ShardStatus) {
	for _, shard := range shards {
		for number, known := range f.shards {
			if known.ShardCount != shard.ShardCount {
				delete(f.shards, number)
			}
		}
		f.shards[shard.Shard] = shard
	}
}

func (f *Follower) isComplete() bool {
	zero := f.shards[0]
	if zero == nil || zero.ShardCount == 0 {
		return false
	}
	for number := range zero.ShardCount {
		if shard := f.shards[number]; shard == nil || !shard.Complete {
			return false
		}
	}
	return true
}

// isUnderstood is false for a record of a newer contract: no conclusion may be drawn from a value that is not known here.
func isUnderstood(record *pb.Envelope) bool {
	return record.Body != nil && allKnown(record.ProtoReflect())
}

func allKnown(message protoreflect.Message) bool {
	known := true
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		values := []protoreflect.Value{value}
		if field.IsList() {
			values = nil
			for at := range value.List().Len() {
				values = append(values, value.List().Get(at))
			}
		}
		for _, one := range values {
			if field.Enum() != nil {
				known = known && field.Enum().Values().ByNumber(one.Enum()) != nil
			} else if field.Message() != nil {
				known = known && allKnown(one.Message())
			}
		}
		return known
	})
	return known
}
