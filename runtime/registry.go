package runtime

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/runtime/policy"
	"github.com/sandboxd/sandboxd/runtime/schema"
)

// registered is a tool with its schemas compiled and its view made, once.
type registered struct {
	*Tool
	input, output *schema.Schema
	view          ToolView
	states        map[RunState]bool
}

// registry holds the tools by name; it does not change after the start.
type registry struct {
	byName map[string]*registered
	order  []*registered
}

// newRegistry registers tools. A tool that states no need, has no closed
// schema or no time limits is refused: the defaults are the cautious ones.
func newRegistry(tools []*Tool) (*registry, error) {
	r := &registry{byName: map[string]*registered{}}
	for _, t := range tools {
		reg, err := register(t)
		if err != nil {
			return nil, fmt.Errorf("register tool %q: %w", t.Name, err)
		}
		if _, twice := r.byName[t.Name]; twice {
			return nil, fmt.Errorf("register tool %q: the name is taken", t.Name)
		}
		r.byName[t.Name] = reg
		r.order = append(r.order, reg)
	}
	slices.SortFunc(r.order, func(a, b *registered) int { return strings.Compare(a.Name, b.Name) })
	return r, nil
}

func register(t *Tool) (*registered, error) {
	n := t.Needs
	touches := n.ReadWorkspace || n.WriteWorkspace || n.ExecuteCommand || n.Network
	switch {
	case !strings.Contains(t.Name, "."):
		return nil, errors.New("the name has no namespace")
	case t.Version == "":
		return nil, errors.New("no version is stated")
	case !touches && !n.Nothing:
		return nil, errors.New("no permission requirement is stated")
	case t.DefaultTimeout <= 0 || t.MaxTimeout < t.DefaultTimeout:
		return nil, errors.New("default and maximum timeout are not stated, or do not fit")
	case t.Mutating && !n.WriteWorkspace && !n.ExecuteCommand && t.Mode != ModeExternal:
		return nil, errors.New("it mutates but does not need writeWorkspace")
	}
	input, err := schema.Compile(t.Input)
	if err != nil {
		return nil, fmt.Errorf("input schema: %w", err)
	}
	output, err := schema.Compile(t.Output)
	if err != nil {
		return nil, fmt.Errorf("output schema: %w", err)
	}
	states, err := statesOf(t.Name)
	if err != nil {
		return nil, err
	}
	return &registered{Tool: t, input: input, output: output, view: viewOf(t), states: states}, nil
}

// statesOf reads the projection table for one name.
func statesOf(name string) (map[RunState]bool, error) {
	states, named := map[RunState]bool{}, false
	for _, rule := range ProjectionRules() {
		globs, err := policy.Compile(rule.Tools, nil, ".")
		if err != nil {
			return nil, err
		}
		if !globs.Judge(name, ".").Allowed {
			continue
		}
		named = true
		for _, s := range rule.States {
			states[s] = true
		}
	}
	if !named {
		states[Editing] = true
	}
	return states, nil
}

func viewOf(t *Tool) ToolView {
	needs := []string{}
	for _, n := range neededPermissions(t.Needs) {
		needs = append(needs, n.name)
	}
	return ToolView{
		Name: t.Name, Version: t.Version, Title: t.Title, Description: t.Description,
		InputSchema: t.Input, OutputSchema: t.Output, Mode: t.Mode,
		Mutating: t.Mutating, Destructive: t.Destructive, OpenWorld: t.OpenWorld, Idempotent: t.Idempotent,
		TimeoutMs: t.DefaultTimeout.Milliseconds(), MaxTimeoutMs: t.MaxTimeout.Milliseconds(),
		Needs: needs, Tags: t.Tags,
	}
}

// find returns a tool by name and, if stated, version. A near name is
// suggested.
func (r *registry) find(name, version string) (*registered, error) {
	t, ok := r.byName[name]
	if !ok {
		near := schema.Nearest(name, r.names())
		if near != "" {
			return nil, Faultf(CodeToolUnknown, "No tool is named %q. Did you mean %q?", clip(name, 80), near)
		}
		return nil, Faultf(CodeToolUnknown, "No tool is named %q. Use one of the tools that are listed.", clip(name, 80))
	}
	if version != "" && version != t.Version {
		return nil, Faultf(CodeToolVersionMismatch, "%s is here in version %s. Read its schema again and call that.", t.Name, t.Version)
	}
	return t, nil
}

func (r *registry) all() []*registered { return r.order }

func (r *registry) names() []string {
	names := make([]string, len(r.order))
	for i, t := range r.order {
		names[i] = t.Name
	}
	return names
}

// limit is the call's time limit: the input's wish within the tool's maximum.
func (t *registered) limit(input any) time.Duration {
	if d := t.timeout(input); d > 0 {
		return min(d, t.MaxTimeout)
	}
	return t.DefaultTimeout
}

// breaksContract tells whether a result's output does not fit the schema that
// the tool states. A fault's own structure is not the tool's output.
func (t *registered) breaksContract(raw []byte) []schema.Violation {
	doc, err := schema.DecodeJSON(raw)
	if err != nil {
		return []schema.Violation{{Rule: "json", Message: err.Error()}}
	}
	return t.output.Validate(doc)
}
