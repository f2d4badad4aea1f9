package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/daybookhq/daybook/worker"
)

type SendEmail struct{ To, Subject string }

func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	w := worker.New(worker.Config{
		NATSURL: os.Getenv("NATS_URL"),
		URL:     os.Getenv("DAYBOOK_URL"),
		Token:   os.Getenv("DAYBOOK_TOKEN"),
		Queue:   "mail",
		Slots:   8,
	})
	worker.Handle(w, "send-email", func(ctx context.Context, run worker.Run[SendEmail]) error {
		fmt.Println("to", run.Args.To, "as", run.ID) // run.ID is the idempotency key
		return nil
	})
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

func ExampleHandle_errors() {
	type Import struct{ File string }
	w := worker.New(worker.Config{URL: "http://127.0.0.1:7788"})
	worker.Handle(w, "import", func(ctx context.Context, run worker.Run[Import]) error {
		data, err := os.ReadFile(run.Args.File)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return worker.Later(time.Minute) // not there yet: no attempt is counted
		case errors.Is(err, fs.ErrPermission):
			return worker.Fatal(err) // trying again will not help
		case err != nil:
			return err // again, with the job's back-off
		}
		run.Progress(0.5, fmt.Sprintf("read %d bytes", len(data)))
		return nil
	})
}

func ExampleHandle_cause() {
	w := worker.New(worker.Config{URL: "http://127.0.0.1:7788"})
	worker.Handle(w, "crawl", func(ctx context.Context, run worker.Run[struct{ URL string }]) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, run.Args.URL, nil)
		if err != nil {
			return worker.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			if errors.Is(context.Cause(ctx), worker.ErrLeaseLost) {
				log.Print("another worker may have this run now")
			}
			return err
		}
		return resp.Body.Close()
	})
}

func ExampleHandleResult() {
	type Sum struct{ A, B int }
	w := worker.New(worker.Config{URL: "http://127.0.0.1:7788"})
	worker.HandleResult(w, "sum", func(_ context.Context, run worker.Run[Sum]) (map[string]int, error) {
		return map[string]int{"sum": run.Args.A + run.Args.B}, nil
	})
}

func ExampleEnqueue() {
	c, err := worker.NewClient(worker.ClientConfig{URL: "http://127.0.0.1:7788"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	// However often this is called for the customer, one welcome is sent.
	run, err := worker.Enqueue(ctx, c, "welcome", SendEmail{"ada@example.com", "Welcome"}, worker.Key("welcome:42"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.RunID, run.Created)
}

func ExampleFatal() {
	err := worker.Fatal(fs.ErrPermission)
	fmt.Println(err, errors.Is(err, fs.ErrPermission))
	// Output: permission denied true
}
