package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Streams are used again by later operations: nothing of one may reach
// another, least of all a kill that comes as its command ends.
func TestALateKillReachesNoOtherCommand(t *testing.T) {
	b := start(t, strongest(), nil)
	ctx := context.Background()
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for i := range 60 {
				p, err := b.Start(ctx, sandbox.Command{Argv: []string{"true"}})
				if !assert.NoError(t, err) {
					return
				}
				time.Sleep(time.Duration(i%20) * 100 * time.Microsecond)
				assert.NoError(t, p.Kill(ctx, 0))
				_ = p.Signal(ctx, "SIGKILL")
				_, err = p.Wait()
				assert.NoError(t, err)
			}
		})
		all.Go(func() {
			for i := range 60 {
				want := fmt.Sprintf("%d\n", i)
				out, exit := run(t, b, sh(fmt.Sprintf("echo %d; exit %d", i, i%5)))
				assert.Equal(t, want, out)
				assert.Equal(t, i%5, exit.Code)
				assert.Zero(t, exit.Killed)
			}
		})
	}
	all.Wait()
	require.NoError(t, b.Err())
}

func TestParallelWorkDoesNotMix(t *testing.T) {
	each(t, func(t *testing.T, b *testBox) {
		ctx := context.Background()
		var all sync.WaitGroup
		for w := range 8 {
			all.Go(func() {
				path := fmt.Sprintf("d/%d", w)
				for i := range 25 {
					text := fmt.Sprintf("writer %d, round %d\n", w, i)
					_, err := b.Files().Apply(ctx, []sandbox.Change{{Op: sandbox.OpWrite, Path: path, Data: []byte(text)}})
					assert.NoError(t, err)
					res, err := b.Files().Read(ctx, sandbox.ReadRequest{Path: path, Limit: 100})
					assert.NoError(t, err)
					assert.Equal(t, text, string(res.Data))
					_, err = b.Files().Stat(ctx, "none")
					assert.Equal(t, sandbox.KindNotFound, sandbox.KindOf(err))
					gone, cancel := context.WithCancel(ctx)
					time.AfterFunc(time.Duration(i)*20*time.Microsecond, cancel)
					_, _ = b.Files().Stat(gone, path) // either way
					cancel()
				}
				var out bytes.Buffer
				p, err := b.Start(ctx, sandbox.Command{Argv: []string{"cat", path}, Stdout: &out})
				assert.NoError(t, err)
				_, err = p.Wait()
				assert.NoError(t, err)
				assert.Equal(t, fmt.Sprintf("writer %d, round 24\n", w), out.String())
			})
		}
		all.Wait()
		require.NoError(t, b.Err())
	})
}
