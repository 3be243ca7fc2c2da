package runtime

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/runtime/policy"
)

// refuseUnoffered refuses by name what a run cannot have yet: what is taken and
// not held would be trusted.
func refuseUnoffered(s *RunSpec) error {
	b := s.Budgets
	for _, c := range []struct {
		pointer string
		asked   bool
		instead string
	}{
		{"/lease", s.Lease != nil, "Leases are not offered yet. Leave lease out."},
		{"/supersedes", s.Supersedes != "", "Superseding is not offered yet. End the older run with DELETE, and leave supersedes out."},
		{"/budgets/outputBytes", b.OutputBytes > 0, "Budgets of output are not held yet. Leave outputBytes out; calls and failedCalls are held."},
		{"/budgets/cpuMs", b.CPUMs > 0, "Budgets of processor time are not held yet. Leave cpuMs out; limits.cpus and limits.wallMs are held."},
		{"/budgets/costUnits", b.CostUnits > 0, "Budgets of cost are not held yet. Leave costUnits out; calls and failedCalls are held."},
		{"/budgets/sameInputFailures", b.SameInputFailures > 0, "The breaker is not offered yet. Leave sameInputFailures out; failedCalls is held."},
		{"/budgets/toolFailures", b.ToolFailures > 0, "The breaker is not offered yet. Leave toolFailures out; failedCalls is held."},
	} {
		if c.asked {
			return unsupported(c.pointer, "%s", c.instead)
		}
	}
	return nil
}

func settleChecks(s *RunSpec) error {
	if len(s.Labels) > 64 {
		return invalid("/labels", "At most 64 labels.")
	}
	for name, value := range s.Labels {
		if !labelFits(name, &value) {
			return invalid("/labels", labelRule)
		}
	}
	for i, c := range s.Verify {
		if c.Name == "" || len(c.Argv) == 0 {
			return invalid(fmt.Sprintf("/verify/%d", i), "A check needs a name and an argv.")
		}
	}
	return nil
}

// A label's name has no colon: ?label=NAME:VALUE ends it at the first.
const labelRule = "A label's name is 1 to 128 bytes long and without a colon, its value at most 256 bytes."

func labelFits(name string, value *string) bool {
	return name != "" && len(name) <= 128 && !strings.Contains(name, ":") && (value == nil || len(*value) <= 256)
}

func compileProfile(p Permissions) (policy.Profile, error) {
	on := func(b *bool, standard bool) bool {
		if b == nil {
			return standard
		}
		return *b
	}
	profile := policy.Profile{
		Read: on(p.ReadWorkspace, true), Write: on(p.WriteWorkspace, true),
		Execute: on(p.ExecuteCommand, true), Network: on(p.Network, false),
	}
	var err error
	if profile.Tools, err = policy.Compile(p.Tools.Allow, p.Tools.Deny, "."); err != nil {
		return profile, invalid("/permissions/tools", "%s.", err)
	}
	if profile.Paths, err = policy.Compile(p.Paths.Allow, p.Paths.Deny, "/"); err != nil {
		return profile, invalid("/permissions/paths", "%s.", err)
	}
	return profile, checkApprovals(p.Approvals)
}

// approvalClasses are the classes of calls that approvals may name.
func approvalClasses() []string { return []string{"destructive", "network"} }

// checkApprovals refuses what would never ask for anybody's word: a class that
// no call is of, a glob that does not compile.
func checkApprovals(wants []string) error {
	for i, want := range wants {
		pointer := fmt.Sprintf("/permissions/approvals/%d", i)
		if class, isClass := strings.CutPrefix(want, "class:"); isClass {
			if !slices.Contains(approvalClasses(), class) {
				return invalid(pointer, "%q is no class of calls. Use class:destructive, class:network or the name of a tool.", clip(want, 80))
			}
			continue
		}
		if _, err := policy.Compile([]string{want}, nil, "."); err != nil {
			return invalid(pointer, "%s.", err)
		}
	}
	return nil
}

// narrowed is a profile as it shows after a further layer. What decides are
// the layers themselves, each of which must agree; of two allow lists, this
// shows the globs of either that the other covers.
func narrowed(p, layer Permissions) Permissions {
	both := func(a, b *bool) *bool {
		if a == nil || b != nil && !*b {
			return b
		}
		return a
	}
	network := p.Network // left out it is off, unlike the others
	if p.Network != nil && *p.Network && layer.Network != nil {
		network = layer.Network
	}
	return Permissions{
		ReadWorkspace: both(p.ReadWorkspace, layer.ReadWorkspace), WriteWorkspace: both(p.WriteWorkspace, layer.WriteWorkspace),
		ExecuteCommand: both(p.ExecuteCommand, layer.ExecuteCommand), Network: network,
		Tools: narrowedLists(p.Tools, layer.Tools, "."), Paths: narrowedLists(p.Paths, layer.Paths, "/"),
		Approvals: slices.Concat(p.Approvals, layer.Approvals),
	}
}

func narrowedLists(a, b AllowDeny, separator string) AllowDeny {
	out := AllowDeny{Allow: a.Allow, Deny: slices.Concat(a.Deny, b.Deny)}
	switch {
	case b.Allow == nil:
	case a.Allow == nil:
		out.Allow = b.Allow
	default:
		out.Allow = slices.Concat(covered(b.Allow, a.Allow, separator), covered(a.Allow, b.Allow, separator))
		slices.Sort(out.Allow)
		out.Allow = slices.Compact(out.Allow)
	}
	return out
}

// covered returns the globs that others cover.
func covered(globs, others []string, separator string) []string {
	in := []string{}
	cover, err := policy.Compile(others, nil, separator)
	for _, g := range globs {
		if slices.Contains(others, g) || err == nil && cover.Judge(g, separator).Allowed {
			in = append(in, g)
		}
	}
	return in
}
