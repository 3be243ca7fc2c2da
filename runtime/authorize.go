package runtime

import (
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/runtime/policy"
)

// authorize weighs a checked call against the run: its state, its permission
// profile, the scope of its paths, its network. It is the only place that
// mints a Grant.
func (k *Kernel) authorize(f *flight, c *checked) (*Grant, error) {
	run := f.run.view()
	for _, rule := range authorizationRules() {
		if fault := rule.judge(run, c); fault != nil {
			return nil, f.decline(rule.name, fault)
		}
	}
	// Calls at the same time saw the same usage: the last of a budget goes to
	// one of them.
	if fault := f.run.admit(f); fault != nil {
		return nil, f.decline("budget.calls", fault)
	}
	decision := &Decision{Allowed: true, ReasonCode: "ALLOWED", Rule: "all rules passed"}
	f.update(func(call *Call) {
		call.Decision, call.EffectiveArguments, call.ToolVersion = decision, f.run.redactJSON(c.effective), c.tool.Version
	})
	g := &Grant{
		call: &f.call, tool: c.tool, input: c.input, meaning: c.meaning, timeout: c.timeout,
		scope:    scope{readOnly: run.readOnly, profiles: run.profiles},
		secrets:  f.run.secrets,
		captures: newCaptureSet(k.artifacts, f.run.redactor, f.call, maxChars(c.tool.Definition, f.max)),
		maxChars: maxChars(c.tool.Definition, f.max),
	}
	return g, k.note(f, CallAuthorized, &CallUpdate{Decision: decision}, map[string]any{
		"group": c.tool.group(c.meaning), "rule": decision.Rule,
	})
}

// decline notes which rule refused a call.
func (f *flight) decline(rule string, fault *Fault) *Fault {
	decision := &Decision{
		ReasonCode: string(fault.Code), Rule: rule, SafeMessage: fault.Message,
		RequiresApproval: fault.Code == CodeApprovalRequired,
	}
	f.update(func(call *Call) { call.Decision = decision })
	return fault
}

// runView is what the rules see of a run.
type runView struct {
	state    RunState
	readOnly bool
	network  string
	profiles policy.Profiles
	approval []string
	budgets  BudgetsSpec
	usage    RunUsage
}

// An authorizationRule refuses with a fault, or has nothing against the call.
type authorizationRule struct {
	name  string
	judge func(run runView, c *checked) *Fault
}

// authorizationRules are tried in this order; the first that refuses decides.
func authorizationRules() []authorizationRule {
	return []authorizationRule{
		{"budget.calls", judgeCallBudget},
		{"tools.allow-deny", judgeToolName},
		{"permissions", judgePermissions},
		{"projection", judgeProjection},
		{"workspace.access", judgeWorkspaceAccess},
		{"paths.protected", judgeProtectedPaths},
		{"paths.scope", judgePathScope},
		{"network.target", judgeNetworkTarget},
		{"approvals", judgeApproval},
	}
}

func judgeCallBudget(run runView, _ *checked) *Fault {
	if b := run.budgets; b.Calls > 0 && run.usage.Calls >= b.Calls {
		return Faultf(CodeBudgetExhausted, "This run may make %d calls and has made them. Stop and report what is left to do.", b.Calls)
	}
	if b := run.budgets; b.FailedCalls > 0 && run.usage.FailedCalls >= b.FailedCalls {
		return Faultf(CodeBudgetExhausted, "This run may have %d failed calls and has had them. Stop and report what went wrong.", b.FailedCalls)
	}
	return nil
}

func judgeToolName(run runView, c *checked) *Fault {
	if v := run.profiles.Tool(c.tool.Name); !v.Allowed {
		return Faultf(CodeToolDenied, "This run may not use %s. Use another of its tools.", c.tool.Name)
	}
	return nil
}

func judgePermissions(run runView, c *checked) *Fault {
	for _, need := range neededPermissions(c.tool.Needs) {
		if !run.profiles.Grants(need.granted) {
			return Faultf(CodePermissionNotGranted, "This run does not grant %s, which %s needs. Do the work without it or ask for a run that grants it.", need.name, c.tool.Name)
		}
	}
	return nil
}

func judgeProjection(run runView, c *checked) *Fault {
	if projected(c.tool, run) {
		return nil
	}
	return Faultf(CodeToolNotExposed, "%s is not available while the run is in state %s. Use the tools that are listed now.", c.tool.Name, run.state)
}

func judgeWorkspaceAccess(run runView, c *checked) *Fault {
	if run.readOnly && c.tool.Needs.WriteWorkspace {
		return Faultf(CodeReadOnlyWorkspace, "The workspace is read-only in this run, so %s cannot change it.", c.tool.Name)
	}
	return nil
}

// judgeProtectedPaths keeps file tools out of repository internals: what is
// written there runs as a program at the next git command.
func judgeProtectedPaths(_ runView, c *checked) *Fault {
	for _, use := range c.paths {
		if use.Write && slices.ContainsFunc(strings.Split(use.Path, "/"), isGitDir) {
			return Faultf(CodeProtectedPath, "Paths inside .git are not written by %s. Use the git tools or a command.", c.tool.Name)
		}
	}
	return nil
}

func isGitDir(name string) bool { return strings.EqualFold(name, ".git") }

func judgePathScope(run runView, c *checked) *Fault {
	for _, use := range c.paths {
		if run.profiles.Path(use.Path, use.Write).Allowed {
			continue
		}
		if use.Write {
			return Faultf(CodeWriteScopeDenied, "This run's scope does not include %q, so it is not changed. Keep to the paths of the task.", use.Path)
		}
		return Faultf(CodeReadScopeDenied, "This run's scope does not include %q. Keep to the paths of the task.", use.Path)
	}
	return nil
}

func judgeNetworkTarget(run runView, c *checked) *Fault {
	if run.network != "none" {
		return nil
	}
	if target := c.tool.network(c.input); target != "" {
		return Faultf(CodeNetworkNotAllowed, "This run has no network, so %q cannot be reached. Work with what is in the box.", target)
	}
	return nil
}

// judgeApproval fails closed: a run that asks for a person's word gets it, or
// the call is not made.
func judgeApproval(run runView, c *checked) *Fault {
	for _, want := range run.approval {
		class, isClass := strings.CutPrefix(want, "class:")
		hit := class == "destructive" && c.meaning.Destructive || class == "network" && c.meaning.OpenWorld
		if !isClass {
			// checkApprovals compiled it before; should it not compile here, it asks.
			names, err := policy.Compile([]string{want}, nil, ".")
			hit = err != nil || names.Judge(c.tool.Name, ".").Allowed
		}
		if hit {
			return Faultf(CodeApprovalRequired, "%s needs a person's approval in this run. Go on with other work and report what you wanted to do.", c.tool.Name)
		}
	}
	return nil
}

// permissionNeed ties a need of a tool to the switch that grants it.
type permissionNeed struct {
	name    string
	granted func(policy.Profile) bool
}

func neededPermissions(n Needs) []permissionNeed {
	var needs []permissionNeed
	for _, row := range []struct {
		needed bool
		need   permissionNeed
	}{
		{n.ReadWorkspace, permissionNeed{"readWorkspace", func(p policy.Profile) bool { return p.Read }}},
		{n.WriteWorkspace, permissionNeed{"writeWorkspace", func(p policy.Profile) bool { return p.Write }}},
		{n.ExecuteCommand, permissionNeed{"executeCommand", func(p policy.Profile) bool { return p.Execute }}},
		{n.Network, permissionNeed{"network", func(p policy.Profile) bool { return p.Network }}},
	} {
		if row.needed {
			needs = append(needs, row.need)
		}
	}
	return needs
}

// defaultMaxChars caps inline text where neither tool nor caller says.
const defaultMaxChars = 30_000

func maxChars(d Definition, asked int) int {
	limit := d.MaxResultChars
	if limit == 0 {
		limit = defaultMaxChars
	}
	if asked > 0 && asked < limit {
		return asked
	}
	return limit
}
