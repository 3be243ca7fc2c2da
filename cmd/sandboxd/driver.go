package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/docker"
	"github.com/sandboxd/sandboxd/sandbox/oci"
)

type driverConfig struct {
	name, data, agent, runtime string
	log                        *slog.Logger
}

// chooseDriver takes the driver that is named; auto takes docker if an engine
// answers, else oci. why is for the line that says what serves.
func chooseDriver(ctx context.Context, c driverConfig) (driver sandbox.Driver, why string, err error) {
	owner, err := ownerID(c.data)
	if err != nil {
		return nil, "", err
	}
	openDocker := func() (sandbox.Driver, error) {
		return docker.New(ctx, docker.Config{DataDir: c.data, AgentPath: c.agent, OwnerID: owner, Runtime: c.runtime, Logger: c.log})
	}
	openOCI := func() (sandbox.Driver, error) {
		return oci.New(ctx, oci.Config{DataDir: c.data, AgentPath: c.agent, OwnerID: owner, Runtime: c.runtime, Logger: c.log})
	}
	switch c.name {
	case "docker":
		driver, err = openDocker()
		return driver, "asked for", err
	case "oci":
		driver, err = openOCI()
		return driver, "asked for", err
	}
	driver, noDocker := openDocker()
	if noDocker == nil {
		return driver, "a Docker engine answers", nil
	}
	driver, err = openOCI()
	if err != nil {
		return nil, "", fmt.Errorf("no driver can make boxes here: docker: %w; oci: %w", noDocker, err)
	}
	return driver, firstSentence(noDocker.Error()), nil
}

// firstSentence leaves the advice out of an error's text.
func firstSentence(text string) string {
	for _, end := range []string{". ", "; "} {
		text, _, _ = strings.Cut(text, end)
	}
	return strings.TrimSuffix(text, ".")
}

// ownerID names this data directory's boxes, so that a service never touches
// another's. It is made once.
func ownerID(data string) (string, error) {
	path := filepath.Join(data, "owner")
	raw, err := os.ReadFile(path)
	if err == nil && len(strings.TrimSpace(string(raw))) > 0 {
		return strings.TrimSpace(string(raw)), nil
	}
	if err != nil && !os.IsNotExist(err) {
		return "", err
	}
	id := strings.ReplaceAll(uuid.NewString(), "-", "")[:12]
	return id, os.WriteFile(path, []byte(id+"\n"), 0o600)
}

func discardLog() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }
