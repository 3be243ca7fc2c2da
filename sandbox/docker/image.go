package docker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"

	"github.com/sandboxd/sandboxd/sandbox"
)

// imageFacts are what a box takes over from its image: the environment, and
// nothing of how the image wants to be started.
type imageFacts struct {
	id      string
	digest  string
	env     []string
	volumes []string
}

// inspectImage looks an image up at the engine. It pulls none: which images may
// be used, and where they come from, is decided elsewhere.
func (d *Driver) inspectImage(ctx context.Context, ref string) (imageFacts, error) {
	info, err := d.engine.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		return imageFacts{}, &sandbox.Error{Kind: sandbox.KindImageMissing, Message: missingMessage(ref), Cause: err}
	}
	if err != nil {
		return imageFacts{}, unavailable("the engine did not describe the image", err)
	}
	return factsOf(ref, info, d.about)
}

func missingMessage(ref string) string {
	if name, _, _ := strings.Cut(ref, ":"); name == DefaultImage {
		return fmt.Sprintf("the image %s is not there; build it with images/build.sh (needs no registry), or docker build -t %s images/base", ref, DefaultImage)
	}
	return fmt.Sprintf("the image %s is not there; get it with docker pull %s, or docker load", ref, ref)
}

// factsOf refuses an image that cannot run on the engine's machine. The engine
// itself would start it, and the agent would fail with an obscure error.
func factsOf(ref string, info image.InspectResponse, engine aboutEngine) (imageFacts, error) {
	if info.Os != "" && info.Os != "linux" {
		return imageFacts{}, &sandbox.Error{Kind: sandbox.KindUnsupported, Message: fmt.Sprintf("the image %s is for %s; boxes need a Linux image", ref, info.Os)}
	}
	if info.Architecture != "" && info.Architecture != engine.arch {
		return imageFacts{}, &sandbox.Error{Kind: sandbox.KindUnsupported, Message: fmt.Sprintf(
			"the image %s is for %s and the engine's machine is %s; use an image for %s", ref, info.Architecture, engine.arch, engine.arch)}
	}
	facts := imageFacts{id: info.ID, digest: info.ID}
	if len(info.RepoDigests) > 0 {
		_, facts.digest, _ = strings.Cut(info.RepoDigests[0], "@")
	}
	if info.Config != nil {
		facts.env = info.Config.Env
		facts.volumes = slices.Sorted(maps.Keys(info.Config.Volumes))
	}
	return facts, nil
}

// goArch translates the machine's name, as uname tells it, to an image's.
func goArch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return machine
}
