package docker

import (
	"context"

	"github.com/sandboxd/sandboxd/sandbox"
)

// prepareApart would make a box on an engine that shares no files with the
// service.
func (m *making) prepareApart(context.Context) error {
	return &sandbox.Error{Kind: sandbox.KindUnsupported, Message: "the Docker engine is on another machine, or sees other files than the service; run the service beside the engine, as root"}
}

func (m *making) attach(context.Context) (connector, error) {
	return nil, &sandbox.Error{Kind: sandbox.KindUnsupported, Message: "no session over attached streams"}
}
