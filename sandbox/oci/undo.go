package oci

import (
	"context"
	"errors"
	"slices"
	"time"
)

// undoTimeout bounds the removal of a box, whatever became of the caller.
const undoTimeout = 30 * time.Second

// An undo holds the opposites of the steps that were taken to make a box. When
// the box is done they are its removal.
type undo struct{ steps []func(context.Context) error }

func (u *undo) push(step func(context.Context) error) { u.steps = append(u.steps, step) }

// run takes the steps back, the last first. All are tried; those that failed
// stay for another run, in their order.
func (u *undo) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	var left []func(context.Context) error
	var errs []error
	for _, step := range slices.Backward(u.steps) {
		if err := step(ctx); err != nil {
			errs, left = append(errs, err), append(left, step)
		}
	}
	slices.Reverse(left)
	u.steps = left
	return errors.Join(errs...)
}
