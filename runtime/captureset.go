package runtime

// captureSet is every stream of one call.
type captureSet struct {
	open func(name, description string) *Capture
}
