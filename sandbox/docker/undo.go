package docker

import (
	"context"
	"errors"
	"time"
)

// undoTimeout bounds the taking back of a box, whatever became of the caller.
const undoTimeout = 30 * time.Second

// An undo is a stack of steps that take back what was made. The steps of a box
// that came to life become its removal.
type undo struct{ steps []func(context.Context) error }

func (u *undo) push(step func(context.Context) error) { u.steps = append(u.steps, step) }

// ended is the outcome of closing a connection whose other end may have gone
// first: it is closed then, whatever the close says.
func ended(error) error { return nil }

// run takes everything back, the newest first. Every step is tried; a step that
// failed stays on the stack for another try.
func (u *undo) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	var failed []func(context.Context) error
	var errs []error
	for i := len(u.steps) - 1; i >= 0; i-- {
		if err := u.steps[i](ctx); err != nil {
			errs = append(errs, err)
			failed = append([]func(context.Context) error{u.steps[i]}, failed...)
		}
	}
	u.steps = failed
	return errors.Join(errs...)
}
