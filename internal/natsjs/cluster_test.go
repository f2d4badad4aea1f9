package natsjs_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/internal/natstest"
	"github.com/daybookhq/daybook/worker/protocol"
)

// freePorts returns ports that were free a moment ago.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // only now, so that no port comes twice
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

func run(t *testing.T, opts *server.Options) *server.Server {
	t.Helper()
	opts.Host, opts.NoSigs, opts.NoLog = "127.0.0.1", true, true
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(deadline) {
		t.Fatal("server is not ready")
	}
	return s
}

func cluster(t *testing.T) (map[string]*server.Server, string) {
	t.Helper()
	var routes []*url.URL
	ports := freePorts(t, 3)
	for _, p := range ports {
		routes = append(routes, &url.URL{Scheme: "nats", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(p))})
	}
	nodes, urls := map[string]*server.Server{}, []string{}
	for i, p := range ports {
		name := fmt.Sprintf("n%d", i)
		nodes[name] = run(t, &server.Options{
			ServerName: name, Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(),
			JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 16 << 30,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: p}, Routes: routes,
		})
		urls = append(urls, nodes[name].ClientURL())
	}
	return nodes, strings.Join(urls, ",")
}

// Three replicas: what production runs. The streams agree with what was asked for, concurrent engines agree with
// each other, and the loss of the leader costs retries but no message.
func TestClusterOfThree(t *testing.T) {
	nodes, urls := cluster(t)
	connect := func() jetstream.JetStream {
		nc, err := natsjs.Connect(natsjs.ConnectOptions{URL: urls, Name: t.Name(), Logger: natstest.Quiet()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		natstest.AwaitConnected(t, nc)
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		return js
	}
	js, production := connect(), natsjs.ProductionTopology()
	eventually(t, "the cluster has elected a leader", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // a cluster without leader does not answer
		defer cancel()
		_, err := js.AccountInfo(ctx)
		return err == nil
	})
	engines := []jetstream.JetStream{js, connect(), connect()}
	eventually(t, "all engines agree with the cluster", func() bool {
		errs := make([]error, len(engines))
		var wg sync.WaitGroup
		for i, engine := range engines {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if _, errs[i] = natsjs.Ensure(ctx, engine, production); errs[i] == nil {
					_, errs[i] = natsjs.EnsureConsumer(ctx, engine, production, lane)
				}
			})
		}
		wg.Wait()
		err := errors.Join(errs...)
		if _, ok := errors.AsType[*natsjs.MismatchError](err); ok {
			t.Fatal(err)
		}
		if err != nil {
			t.Log(err)
		}
		return err == nil
	})

	s, err := js.Stream(within(t), protocol.DispatchStream)
	if err != nil {
		t.Fatal(err)
	}
	created, leader := s.CachedInfo().Created, s.CachedInfo().Cluster.Leader
	p, err := natsjs.NewPublisher(js.Conn(), 2*time.Second) // what a dying leader swallowed is asked for again
	if err != nil {
		t.Fatal(err)
	}
	publish := func(prefix string) {
		open := batch(200)
		for _, m := range open {
			m.Metadata[protocol.HeaderMsgID] = prefix + m.UUID
		}
		eventually(t, "every message is published", func() bool {
			err := p.Publish(topic, open...)
			failed := failures(t, err)
			if natsjs.Permanent(err) {
				t.Fatal(err)
			}
			var rest []*message.Message
			for i := range failed {
				rest = append(rest, open[i])
			}
			open = rest
			return len(open) == 0
		})
	}
	publish("before")
	nodes[leader].Shutdown()
	nodes[leader].WaitForShutdown()
	publish("after")
	eventually(t, "every message is stored, once", func() bool {
		info, err := s.Info(within(t))
		return err == nil && info.State.Msgs == 400 && info.Created.Equal(created)
	})
}

// A denied publish looks like a lost one; only the connection learns the reason.
func TestDeniedPublishNamesThePermission(t *testing.T) {
	s := run(t, &server.Options{
		ServerName: "auth", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(),
		Users: []*server.User{{Username: "relay", Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{"$JS.API.>"}},
		}}},
	})
	nc, err := natsjs.Connect(natsjs.ConnectOptions{URL: s.ClientURL(), Name: t.Name(), Logger: natstest.Quiet(),
		Extra: []nats.Option{nats.UserInfo("relay", "p")}})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	natstest.AwaitConnected(t, nc)
	p, err := natsjs.NewPublisher(nc, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	failed := failures(t, p.Publish(topic, dispatch("m")))
	if err := failed[0]; err == nil || !strings.Contains(strings.ToLower(err.Error()), "permissions violation") || natsjs.Permanent(err) {
		t.Errorf("error %v", err)
	}
}

func TestServerWithoutJetStreamIsUnsupported(t *testing.T) {
	s := run(t, &server.Options{ServerName: "core", Port: server.RANDOM_PORT})
	nc, err := natsjs.Connect(natsjs.ConnectOptions{URL: s.ClientURL(), Name: t.Name(), Logger: natstest.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	natstest.AwaitConnected(t, nc)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	_, err = natsjs.Ensure(within(t), js, topology)
	if !errors.Is(err, natsjs.ErrUnsupported) || !strings.Contains(err.Error(), "JetStream is not enabled") {
		t.Errorf("error %v", err)
	}
}
