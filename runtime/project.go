package runtime

import (
	"encoding/json"

	"github.com/sandboxd/sandboxd/runtime/schema"
)

// A ProjectionRule says in which states of a run tools of a kind are shown.
type ProjectionRule struct {
	// Tools are globs over names.
	Tools []string `json:"tools"`
	// States in which they are shown.
	States []RunState `json:"states"`
}

// ProjectionRules is the whole table. A tool is shown where any rule that
// names it holds the run's state; a tool that no rule names is shown while
// EDITING.
func ProjectionRules() []ProjectionRule {
	all := []RunState{Planning, Editing, Verifying, Review, Finished}
	return []ProjectionRule{
		{[]string{"file.read", "file.list", "file.stat", "file.diff", "repo.*"}, all},
		{[]string{"git.status", "git.diff", "git.log", "git.show", "git.blame"}, all},
		{[]string{"artifact.read", "memory.*", "policy.explain", "tool.search"}, all},
		{[]string{"file.write", "file.edit", "file.patch", "file.delete", "file.move"}, []RunState{Editing}},
		{[]string{"shell.*", "code.run"}, []RunState{Editing, Verifying}},
		{[]string{"verifier.run"}, []RunState{Editing, Verifying, Review}},
		{[]string{"git.add", "git.restore", "git.branch", "git.apply"}, []RunState{Editing}},
		{[]string{"git.commit", "pr.createDraft"}, []RunState{Editing, Verifying, Review}},
	}
}

// projected tells whether the tool is shown in the run's state.
func projected(t *registered, run runView) bool { return t.states[run.state] }

// project lists the tools that the run's model may see now: those that
// authorize would not refuse for their name, needs or state.
func (k *Kernel) project(run runView) []ToolView {
	views := []ToolView{}
	for _, t := range k.tools.all() {
		c := &checked{tool: t}
		if judgeToolName(run, c) == nil && judgePermissions(run, c) == nil &&
			judgeProjection(run, c) == nil && judgeWorkspaceAccess(run, c) == nil {
			views = append(views, t.view)
		}
	}
	return views
}

// toolList weighs and hashes a projection. The bytes are stable: same tools,
// same hash.
func toolList(views []ToolView) (ToolList, error) {
	raw, err := json.Marshal(views)
	if err != nil {
		return ToolList{}, err
	}
	hash, err := schema.HashJSON(raw)
	if err != nil {
		return ToolList{}, err
	}
	return ToolList{Tools: views, SchemaSetHash: hash, TokenEstimate: len(raw) / 4}, nil
}
