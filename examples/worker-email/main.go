// Command worker-email is a worker for the kind send-email. It writes messages to a directory instead of sending them.
//
//	daybook dev &
//	daybook job apply -f jobs.yaml
//	NATS_URL=… go run . &
//	go run . -enqueue ada@example.com
//
// Without NATS_URL it works over HTTP alone.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/mail"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/daybookhq/daybook/worker"
)

// Email is the arguments of a send-email run.
type Email struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
}

func main() {
	outbox := flag.String("outbox", "outbox", "directory that messages are written to")
	enqueue := flag.String("enqueue", "", "ask for one message to this address, and leave")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := func() error { return work(ctx, *outbox) }
	if *enqueue != "" {
		run = func() error { return ask(ctx, *enqueue) }
	}
	if err := run(); err != nil {
		slog.Error("worker-email", "error", err)
		os.Exit(1)
	}
}

func engineURL() string { return cmp.Or(os.Getenv("DAYBOOK_URL"), "http://127.0.0.1:7788") }

func work(ctx context.Context, outbox string) error {
	if err := os.MkdirAll(outbox, 0o755); err != nil {
		return err
	}
	w := worker.New(worker.Config{
		NATSURL: os.Getenv("NATS_URL"),
		URL:     engineURL(),
		Token:   os.Getenv("DAYBOOK_TOKEN"),
		Queue:   "mail",
		Slots:   8,
	})
	worker.HandleResult(w, "send-email", func(ctx context.Context, run worker.Run[Email]) (map[string]string, error) {
		file, err := deliver(outbox, run.ID, run.Args)
		return map[string]string{"file": file}, err
	})
	return w.Run(ctx)
}

// deliver is idempotent: the run's id names the message, so a repeated execution writes the same file again. A real mail
// service takes the id as idempotency key instead.
func deliver(outbox, id string, e Email) (string, error) {
	addr, err := mail.ParseAddress(e.To)
	if err != nil {
		return "", worker.Fatal(fmt.Errorf("to: %w", err)) // the address will not get better
	}
	file := filepath.Join(outbox, id+".eml")
	text := fmt.Sprintf("To: %s\nSubject: %s\n\nHello.\n", addr, e.Subject)
	if err := os.WriteFile(file+".tmp", []byte(text), 0o644); err != nil {
		return "", err
	}
	return file, os.Rename(file+".tmp", file) // whole or not at all
}

func ask(ctx context.Context, to string) error {
	c, err := worker.NewClient(worker.ClientConfig{URL: engineURL(), Token: os.Getenv("DAYBOOK_TOKEN")})
	if err != nil {
		return err
	}
	defer c.Close()
	// One welcome per address and day, however often it is asked for.
	key := "welcome:" + to + ":" + time.Now().UTC().Format(time.DateOnly)
	run, err := worker.Enqueue(ctx, c, "welcome", Email{To: to, Subject: "Welcome"}, worker.Key(key))
	if err != nil {
		return err
	}
	fmt.Println(run.RunID)
	return nil
}
