package sandbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox"
)

// still is a box whose only process ends when it is killed.
type still struct {
	sandbox.Box
	sandbox.Process
	grace chan time.Duration
}

func (s *still) Start(context.Context, sandbox.Command) (sandbox.Process, error) { return s, nil }

func (s *still) Wait() (sandbox.Exit, error) {
	return sandbox.Exit{Code: -1, Killed: 1, Usage: sandbox.Usage{Wall: <-s.grace}}, nil
}

func (s *still) Kill(_ context.Context, grace time.Duration) error {
	s.grace <- grace
	return nil
}

func TestTheGraceIsThatOfWhoeverCancels(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	wishes := make(chan time.Duration, 1)
	box := &still{grace: make(chan time.Duration, 1)}
	go func() {
		wishes <- 7 * time.Second // known only now, after the start
		cancel(context.Canceled)
	}()
	exit, err := sandbox.Run(ctx, box, sandbox.Command{Argv: []string{"x"}}, func() time.Duration { return <-wishes })
	require.NoError(t, err)
	require.Equal(t, 7*time.Second, exit.Usage.Wall)
}
