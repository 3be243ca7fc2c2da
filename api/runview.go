package api

import (
	"time"

	"github.com/sandboxd/sandboxd/runtime"
)

// runView is a run as clients see it: what it was asked to be beside what it
// is, without the tenant and without secrets.
type runView struct {
	RunID       string                `json:"runId"`
	State       runtime.RunState      `json:"state"`
	Status      runtime.RunStatus     `json:"status"`
	Reason      string                `json:"reason,omitempty"`
	Driver      string                `json:"driver"`
	Image       string                `json:"image"`
	Source      runtime.Source        `json:"source"`
	Workspace   runtime.WorkspaceSpec `json:"workspace"`
	Mounts      []runtime.MountSpec   `json:"mounts,omitempty"`
	Network     runtime.NetworkSpec   `json:"network"`
	Seccomp     string                `json:"seccomp"`
	Limits      runtime.LimitsSpec    `json:"limits"`
	Budgets     runtime.BudgetsSpec   `json:"budgets"`
	Permissions runtime.Permissions   `json:"permissions"`
	Task        *runtime.Task         `json:"task,omitempty"`
	Env         map[string]string     `json:"env,omitempty"`
	SecretNames []string              `json:"secretNames,omitempty"`
	Verify      []runtime.Check       `json:"verify,omitempty"`
	Labels      map[string]string     `json:"labels"`
	Sandbox     runtime.BoxFacts      `json:"sandbox"`
	Usage       runtime.RunUsage      `json:"usage"`
	Changed     []string              `json:"changedFiles"`
	CreatedAt   time.Time             `json:"createdAt"`
	ReadyAt     time.Time             `json:"readyAt,omitzero"`
	EndedAt     time.Time             `json:"endedAt,omitzero"`
	ExpiresAt   time.Time             `json:"expiresAt,omitzero"`
	LastActive  time.Time             `json:"lastActiveAt,omitzero"`
}

func viewRun(run runtime.Run) runView {
	spec := run.Spec
	v := runView{
		RunID: run.RunID, State: run.State, Status: run.Status, Reason: run.Reason, Driver: run.Driver, Image: run.Image,
		Source: spec.Source, Workspace: spec.Workspace, Mounts: spec.Mounts, Network: spec.Network, Seccomp: spec.Seccomp,
		Limits: spec.Limits, Budgets: spec.Budgets, Permissions: spec.Permissions, Env: spec.Env,
		SecretNames: run.Secrets, Verify: spec.Verify, Labels: spec.Labels, Sandbox: run.Sandbox, Usage: run.Usage,
		Changed: run.Changed, CreatedAt: run.CreatedAt, ReadyAt: run.ReadyAt, EndedAt: run.EndedAt,
		ExpiresAt: run.ExpiresAt, LastActive: run.LastActive,
	}
	if spec.Task.Title != "" || spec.Task.Description != "" || len(spec.Task.Repositories) > 0 {
		v.Task = &spec.Task
	}
	if v.Labels == nil {
		v.Labels = map[string]string{}
	}
	if v.Changed == nil {
		v.Changed = []string{}
	}
	return v
}
