package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/api"
	"github.com/sandboxd/sandboxd/runtime"
)

func TestARunIsMadeAsTheBodySaysForTheKeysTenant(t *testing.T) {
	w := newWorld(t, api.Limits{})
	a := w.do("POST", "/v1/runs", `{
		"image": "sandboxd/base", "limits": {"cpus": 1.5, "memoryBytes": 536870912}, "permissions": {"network": false, "tools": {"allow": []}},
		"state": "PLANNING", "env": {"CI": "1"}, "secrets": {"NPM_TOKEN": "hunter2"}, "labels": {"job": "1234"},
		"verify": [{"name": "unit", "argv": ["make", "test"]}]
	}`)
	require.Equal(t, 201, a.status, a.body)
	run := a.object()
	require.Equal(t, "/v1/runs/"+run["runId"].(string), a.head.Get("Location"))
	for _, member := range []string{"runId", "state", "status", "driver", "image", "workspace", "network", "limits", "usage", "createdAt"} {
		require.Contains(t, run, member)
	}
	spec, opt := w.kernel.specs[0], w.kernel.options[0]
	require.Equal(t, runtime.CreateOptions{Tenant: "a", By: "alice", Wait: true}, opt)
	require.Equal(t, 1.5, spec.Limits.CPUs)
	require.Equal(t, map[string]string{"NPM_TOKEN": "hunter2"}, spec.Secrets)
	require.NotNil(t, spec.Permissions.Tools.Allow) // empty is not the same as left out
	require.Nil(t, spec.Permissions.Paths.Allow)
	require.NotContains(t, a.body, "hunter2")
	require.Equal(t, []any{"NPM_TOKEN"}, run["secretNames"])
}

func TestARunNeedsNoBodyAndNoWaiting(t *testing.T) {
	w := newWorld(t, api.Limits{})
	require.Equal(t, 201, w.do("POST", "/v1/runs?wait=none", "", "Content-Type:").status)
	require.False(t, w.kernel.options[0].Wait)
	w.do("POST", "/v1/runs?wait=long", "").problem(400, "BAD_REQUEST")
	require.Len(t, w.kernel.specs, 1)
}

func TestRunsAreListedByPagesAndFilters(t *testing.T) {
	w := newWorld(t, api.Limits{})
	for range 3 {
		w.kernel.addRun("a")
	}
	w.kernel.addRun("b")
	first := w.do("GET", "/v1/runs?limit=2&state=EDITING&status=ready&label=job:1&label=a:b:c", "").object()
	require.Len(t, first["runs"], 2)
	require.Equal(t, runtime.RunFilter{
		Tenant: "a", State: runtime.Editing, Status: runtime.RunReady, Labels: map[string]string{"job": "1", "a": "b:c"},
	}, w.kernel.filters[0])
	second := w.do("GET", "/v1/runs?limit=2&cursor="+first["next"].(string), "").object()
	require.Len(t, second["runs"], 1)
	require.Nil(t, second["next"])
}

func TestABadQueryIsRefusedWithWhatFits(t *testing.T) {
	w := newWorld(t, api.Limits{})
	run := "/v1/runs/" + w.kernel.addRun("a")
	for _, row := range []struct{ path, says string }{
		{"/v1/runs?limit=0", "1 to 1000"}, {"/v1/runs?limit=1001", "1 to 1000"}, {"/v1/runs?limit=ten", "1 to 1000"},
		{"/v1/runs?limit=", "1 to 1000"}, {"/v1/runs?limit=1&limit=2", "2 times"}, {"/v1/runs?limt=1", "limit"},
		{"/v1/runs?state=editing", "EDITING"}, {"/v1/runs?status=gone", "failed"}, {"/v1/runs?label=job", "KEY:VALUE"},
		{"/v1/runs?label=a:1&label=a:2", "once"}, {"/v1/runs?a;b", "query string"}, {"/v1/runs?%zz", "query string"},
		{"/v1/runs?cursor=" + strings.Repeat("a", 513), "cursor"},
		{run + "?x=1", "It takes none"}, {run + "/calls?limit=5000", "1 to 1000"}, {run + "/artifacts?limit=-1", "1 to 1000"},
		{run + "/events?limit=1001", "1 to 1000"}, {run + "/events?after=-1", "after"}, {run + "/events?after=x", "after"},
		{run + "/events?follow=true", "application/x-ndjson"},
		{run + "/tools?format=openai", "native"}, {"/v1/tools?format=mcp", "native"}, {run + "/diff?base=x", "none"},
	} {
		p := w.do("GET", row.path, "").problem(400, "BAD_REQUEST")
		require.Contains(t, p["detail"], row.says, row.path)
	}
	require.Empty(t, w.kernel.filters)
}

func TestAnIdOfAnotherFormIsUnknown(t *testing.T) {
	w := newWorld(t, api.Limits{})
	run := w.kernel.addRun("a")
	uuid := strings.TrimPrefix(run, "run_")
	for _, id := range []string{
		"x", uuid, "call_" + uuid, "RUN_" + uuid, "run_" + strings.ToUpper(uuid), run + "0", run[:len(run)-1],
		"run_00000000-0000-4000-8000-000000000000", "..%2f" + run, run + "%00", "%00", "..%2f..%2fetc%2fpasswd", run + "%20",
	} {
		w.do("GET", "/v1/runs/"+id, "").problem(404, "NOT_FOUND")
		w.do("GET", "/v1/artifacts/"+id, "").problem(404, "NOT_FOUND")
		w.do("GET", "/v1/runs/"+run+"/calls/"+id, "").problem(404, "NOT_FOUND")
		w.do("POST", "/v1/runs/"+run+"/calls/"+id+"/cancel", "").problem(404, "NOT_FOUND")
	}
	require.Equal(t, 200, w.do("GET", "/v1/runs/"+run, "").status) // the control
}

func TestAPatchChangesWhatItNamesAndNothingElse(t *testing.T) {
	w := newWorld(t, api.Limits{})
	run := "/v1/runs/" + w.kernel.addRun("a")
	a := w.do("PATCH", run, `{"state": "REVIEW", "labels": {"a": "1", "b": null}, "expiresAt": "2030-01-31T12:00:00Z", "permissions": {"writeWorkspace": false}}`, "Content-Type: application/merge-patch+json")
	require.Equal(t, 200, a.status, a.body)
	require.Equal(t, "REVIEW", a.object()["state"])
	p := w.kernel.patches[0]
	require.Equal(t, "1", *p.Labels["a"])
	require.Nil(t, p.Labels["b"])
	require.Contains(t, p.Labels, "b")
	require.Equal(t, time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC), p.ExpiresAt.UTC())
	require.False(t, *p.Permissions.WriteWorkspace)
	require.Nil(t, p.Permissions.ReadWorkspace)
	for _, bad := range []badBody{
		{"nothing", `{}`, "", "at least 1"},
		{"state", `{"state": "OPEN"}`, "/state", `"REVIEW"`},
		{"image", `{"image": "x"}`, "/image", "not a known property"},
		{"no time", `{"expiresAt": "tomorrow"}`, "/expiresAt", "RFC 3339"},
		{"no such month", `{"expiresAt": "2030-13-01T00:00:00Z"}`, "/expiresAt", "RFC 3339"},
		{"label", `{"labels": {"a": 1}}`, "/labels/a", "null or string"},
	} {
		p := w.do("PATCH", run, bad.body).problem(400, "BAD_REQUEST")
		require.Contains(t, p["detail"], bad.says, bad.name)
		if bad.pointer != "" {
			require.Equal(t, bad.pointer, p["pointer"], bad.name)
		}
	}
	require.Len(t, w.kernel.patches, 1)
}

func TestARunIsEndedAsOftenAsAskedFor(t *testing.T) {
	w := newWorld(t, api.Limits{})
	run := "/v1/runs/" + w.kernel.addRun("a")
	for range 2 {
		a := w.do("DELETE", run, "")
		require.Equal(t, 204, a.status)
		require.Empty(t, a.body)
	}
	require.Equal(t, "ended", w.do("GET", run, "").object()["status"])
	w.do("DELETE", "/v1/runs/"+newID("run_"), "").problem(404, "NOT_FOUND")
}

func TestToolsCarryTheHashOfTheirSetAsETag(t *testing.T) {
	w := newWorld(t, api.Limits{})
	run := "/v1/runs/" + w.kernel.addRun("a")
	for _, path := range []string{"/v1/tools", run + "/tools", run + "/tools?format=native"} {
		a := w.do("GET", path, "")
		doc := a.object()
		require.Len(t, doc["tools"], 2)
		require.NotZero(t, doc["tokenEstimate"])
		tag := a.head.Get("ETag")
		require.Equal(t, `"`+doc["schemaSetHash"].(string)+`"`, tag)
		for _, known := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
			again := w.do("GET", path, "", "If-None-Match: "+known)
			require.Equal(t, 304, again.status)
			require.Empty(t, again.body)
			require.Equal(t, tag, again.head.Get("ETag"))
		}
		require.Equal(t, 200, w.do("GET", path, "", `If-None-Match: "sha256:0"`).status)
	}
}
