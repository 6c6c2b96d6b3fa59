package main

import (
	"context"
	"errors"
	"io"
	"log"
	"regexp"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "namespace-defaults/bailiffv1"
)

const (
	keepaliveEvery = 2 * time.Second
	batchRecords   = 500
	batchBytes     = 128 << 10
)

// Publisher says things on one topic until somebody else takes it over. What is true is kept, and every session begins with all of it:
// a bus that holds it already finds nothing new, one that forgot it knows it again.
type Publisher struct {
	bus         pb.EventBusClient
	topic, name string
	// How the process is, as the bus is told every 2 s.
	report func() *pb.Keepalive
	epoch  uint64

	lock   sync.Mutex
	latest map[string]said
	dirty  map[string]bool // what the session was not told yet
	sent   [][]string      // keys of batches that are not acknowledged; none for the end of a replace part
	bell   chan struct{}
}

type said struct {
	envelope *pb.Envelope
	at       time.Time
}

func newPublisher(bus pb.EventBusClient, topic, name string, report func() *pb.Keepalive) *Publisher {
	return &Publisher{
		bus: bus, topic: topic, name: name, report: report,
		latest: map[string]said{}, dirty: map[string]bool{}, bell: make(chan struct{}, 1),
	}
}

// say says what is true of a key from now on, which was decided at `now`; nil: nothing any more.
func (p *Publisher) say(key string, now time.Time, envelope *pb.Envelope) {
	p.lock.Lock()
	defer p.lock.Unlock()
	delete(p.latest, key)
	if envelope != nil {
		envelope.Topic, envelope.Key, envelope.ProducedAt = p.topic, key, timestamppb.New(now)
		p.latest[key] = said{envelope, now}
	}
	p.dirty[key] = true
	select {
	case p.bell <- struct{}{}:
	default: // it rings already
	}
}

// isSettled is true if the bus has all that was said.
func (p *Publisher) isSettled() bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	return len(p.dirty) == 0 && len(p.sent) == 0
}

func (p *Publisher) run() {
	var pause Backoff
	for {
		answered, err := p.session()
		if status.Code(err) == codes.Aborted {
			log.Fatalf("Another producer has the topic: %v", err) // and nothing is done any more, not even what is under way
		}
		if answered {
			pause = 0
		}
		if answered && err == nil {
			continue // it ended in good order
		}
		log.Printf("The session was lost: %v", err)
		if status.Code(err) == codes.InvalidArgument {
			p.leaveOut(status.Convert(err).Message())
		}
		pause.wait()
	}
}

func (p *Publisher) session() (answered bool, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // before the next one is opened: two of them fence each other
	silence := time.AfterFunc(openWithin, cancel)
	defer silence.Stop()
	stream, err := p.bus.Publish(ctx)
	if err != nil {
		return false, err
	}
	opening := &pb.OpenSession{Topic: p.topic, ShardCount: 1, Producer: p.name, Epoch: p.epoch, Replace: true}
	if err := stream.Send(&pb.PublishRequest{Step: &pb.PublishRequest_Open{Open: opening}}); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	answer, err := stream.Recv()
	if err != nil {
		return false, err
	}
	p.epoch = answer.GetOpened().GetEpoch() // to come back with
	ended := make(chan error, 1)
	go func() {
		for {
			silence.Reset(lostAfter)
			answer, err := stream.Recv()
			if err != nil {
				ended <- err
				return
			}
			if answer.GetAcknowledged() != nil {
				p.lock.Lock()
				p.sent = p.sent[1:]
				p.lock.Unlock()
			}
		}
	}()
	p.lock.Lock()
	p.dirty, p.sent = map[string]bool{}, nil
	for key := range p.latest {
		p.dirty[key] = true
	}
	p.lock.Unlock()
	err = p.flush(stream)
	if err == nil {
		p.lock.Lock()
		p.sent = append(p.sent, nil)
		p.lock.Unlock()
		err = stream.Send(&pb.PublishRequest{Step: &pb.PublishRequest_EndReplace{EndReplace: &pb.EndReplace{}}})
	}
	report := func() error {
		return stream.Send(&pb.PublishRequest{Step: &pb.PublishRequest_Keepalive{Keepalive: p.report()}})
	}
	if err == nil {
		err = report()
	}
	due := time.NewTicker(keepaliveEvery)
	defer due.Stop()
	for err == nil {
		select {
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return true, err
		case <-p.bell:
			err = p.flush(stream)
		case <-due.C:
			err = report()
		}
	}
	return true, <-ended // what cannot be sent any more was ended from the other side, which says why
}

// flush sends what the bus was not told yet.
func (p *Publisher) flush(stream pb.EventBus_PublishClient) error {
	for {
		p.lock.Lock()
		batch, keys, size := &pb.Batch{}, []string{}, 0
		for key := range p.dirty {
			envelope := &pb.Envelope{Topic: p.topic, Key: key, ProducedAt: timestamppb.Now()}
			if known, found := p.latest[key]; found {
				envelope = known.envelope
				envelope.Age = durationpb.New(time.Since(known.at))
			} else {
				envelope.Body = &pb.Envelope_Tombstone{Tombstone: &pb.Tombstone{Reason: pb.TombstoneReason_TOMBSTONE_REASON_WITHDRAWN}}
			}
			delete(p.dirty, key)
			batch.Records, keys = append(batch.Records, envelope), append(keys, key)
			if size += proto.Size(envelope); len(keys) == batchRecords || size > batchBytes {
				break
			}
		}
		if len(keys) > 0 {
			p.sent = append(p.sent, keys)
		}
		p.lock.Unlock()
		if len(keys) == 0 {
			return nil
		}
		if err := stream.Send(&pb.PublishRequest{Step: &pb.PublishRequest_Batch{Batch: batch}}); err != nil {
			return err
		}
	}
}

var refusedRecord = regexp.MustCompile(`batch\.records\[(\d+)\]`)

// leaveOut forgets the record that the bus does not take, so that the others are taken.
func (p *Publisher) leaveOut(message string) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if found := refusedRecord.FindStringSubmatch(message); found != nil && len(p.sent) > 0 {
		if at, err := strconv.Atoi(found[1]); err == nil && at < len(p.sent[0]) {
			log.Printf("BUG: what is said of %s is not understood, and left out", p.sent[0][at])
			delete(p.latest, p.sent[0][at])
		}
	}
}
