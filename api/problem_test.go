package api_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/api"
	"github.com/sandboxd/sandboxd/runtime"
)

func TestEveryProblemCodeIsServedWithTitleAndAdvice(t *testing.T) {
	w := newWorld(t, api.Limits{})
	served := map[string]bool{}
	for _, row := range w.do("GET", "/v1/codes", "").object()["problems"].([]any) {
		row := row.(map[string]any)
		code := row["code"].(string)
		served[code] = true
		require.EqualValues(t, runtime.ProblemCode(code).HTTP(), row["status"])
		require.NotEmpty(t, row["title"])
		require.NotEmpty(t, row["advice"])
	}
	declared := problemCodes(t)
	require.Greater(t, len(declared), 20)
	for _, code := range declared {
		require.True(t, served[code], "%s has no row in the table of problems", code)
	}
	require.Len(t, served, len(declared))
}

// problemCodes reads the constants out of the source.
func problemCodes(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../runtime/errors.go", nil, 0)
	require.NoError(t, err)
	var codes []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Type == nil {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && name.Name == "ProblemCode" {
			code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			codes = append(codes, code)
		}
		return true
	})
	return codes
}

func TestTheClosedListsAreServed(t *testing.T) {
	w := newWorld(t, api.Limits{})
	doc := w.do("GET", "/v1/codes", "").object()
	require.Len(t, doc["codes"], len(runtime.Codes()))
	require.Len(t, doc["eventKinds"], len(runtime.EventKinds()))
	require.Len(t, doc["cancelReasons"], len(runtime.CancelReasons()))
	require.Len(t, doc["projection"], len(runtime.ProjectionRules()))
}

func TestTheCancelSchemaListsTheKernelsReasons(t *testing.T) {
	w := newWorld(t, api.Limits{})
	path := "/v1/runs/" + w.kernel.addRun("a") + "/calls/" + newID("call_") + "/cancel"
	for _, reason := range runtime.CancelReasons() {
		w.do("POST", path, `{"reason": "`+reason+`"}`).problem(404, "NOT_FOUND") // the reason passed
	}
	p := w.do("POST", path, `{"reason": "shutdown"}`).problem(400, "BAD_REQUEST")
	for _, reason := range runtime.CancelReasons() {
		require.Contains(t, p["detail"], reason)
	}
}

func TestAKernelsProblemIsAnsweredAsItIs(t *testing.T) {
	w := newWorld(t, api.Limits{})
	w.kernel.failure = &runtime.Problem{
		Code: runtime.ProblemRateLimited, Detail: "Too many runs.", RetryAfterSeconds: 5, Pointer: "/x", Cause: errors.New("inner"),
	}
	a := w.do("POST", "/v1/runs", `{}`)
	p := a.problem(429, "RATE_LIMITED")
	require.Equal(t, "Too many runs.", p["detail"])
	require.Equal(t, "/x", p["pointer"])
	require.Equal(t, "5", a.head.Get("Retry-After"))
	require.NotContains(t, a.body, "inner")
}

func TestAnErrorOfOursIsToldToTheLogAlone(t *testing.T) {
	w := newWorld(t, api.Limits{})
	w.kernel.failure = errors.New("database at /secret/path is locked")
	a := w.do("POST", "/v1/runs", `{}`)
	a.problem(500, "INTERNAL")
	require.NotContains(t, a.body, "secret")
	eventually(t, func() bool {
		return strings.Contains(w.log.text(), "/secret/path is locked") && strings.Contains(w.log.text(), a.head.Get("X-Request-Id"))
	}, "the error is not in the log")
}

func TestAPanicIsAProblemAndTheServiceStaysUp(t *testing.T) {
	w := newWorld(t, api.Limits{})
	path := "/v1/runs/" + w.kernel.addRun("a") + "/calls"
	a := w.do("POST", path, `{"toolName": "panic"}`)
	a.problem(500, "INTERNAL")
	require.NotContains(t, a.body, "secret text")
	eventually(t, func() bool { return strings.Contains(w.log.text(), "secret text of a panic") }, "the panic is not in the log")
	require.Equal(t, 200, w.do("POST", path, `{"toolName": "echo"}`).status)
}

func TestWhatIsNowhereIsAProblem(t *testing.T) {
	w := newWorld(t, api.Limits{})
	run := "/v1/runs/" + w.kernel.addRun("a")
	for _, path := range []string{
		"/", "/v1", "/v1/", "/v2/runs", "//v1/runs", "/v1/../healthz", "/v1/runs/", run + "/", run + "/call", run + "/calls/", "/metrics", "/v1/approvals",
	} {
		w.do("GET", path, "").problem(404, "NOT_FOUND")
	}
	require.Contains(t, w.do("GET", "/v1/runs/", "").problem(404, "NOT_FOUND")["detail"], "without it")
	require.Equal(t, 200, w.do("GET", "/v1/runs", "").status) // the control
}

func TestAWrongMethodNamesThoseThatFit(t *testing.T) {
	w := newWorld(t, api.Limits{})
	run := "/v1/runs/" + w.kernel.addRun("a")
	for _, row := range []struct{ method, path, allow string }{
		{"PUT", "/v1/runs", "GET, HEAD, POST"},
		{"POST", run, "GET, HEAD, PATCH, DELETE"},
		{"DELETE", run + "/calls", "GET, HEAD, POST"},
		{"POST", "/healthz", "GET, HEAD"},
		{"OPTIONS", run + "/workspace", "GET, HEAD, PUT"},
		{"BREW", "/v1/tools", "GET, HEAD"},
	} {
		a := w.do(row.method, row.path, "")
		a.problem(405, "METHOD_NOT_ALLOWED")
		require.Equal(t, row.allow, a.head.Get("Allow"), row.path)
	}
	w.do("BREW", "/v1/nothing", "").problem(404, "NOT_FOUND")
}

func TestAnAcceptHeaderThatNothingFitsIsRefusedBeforeAnythingIsDone(t *testing.T) {
	w := newWorld(t, api.Limits{})
	run := "/v1/runs/" + w.kernel.addRun("a")
	for _, path := range []string{run + "/calls", run + "/batches"} {
		w.do("POST", path, `{"toolName": "echo"}`, "Accept: text/html").problem(406, "NOT_ACCEPTABLE")
	}
	w.do("POST", "/v1/runs", `{}`, "Accept: text/html").problem(406, "NOT_ACCEPTABLE")
	w.do("GET", run+"/events", "", "Accept: text/html").problem(406, "NOT_ACCEPTABLE")
	require.Empty(t, w.kernel.proposals)
	require.Empty(t, w.kernel.specs)
	for _, accept := range []string{"", "*/*", "application/*", "text/html, application/json;q=0.1"} {
		require.Equal(t, 200, w.do("GET", run, "", "Accept: "+accept).status, accept)
	}
	w.do("GET", run, "", "Accept: application/json;q=0, */*").problem(406, "NOT_ACCEPTABLE")
}

func TestARequestHasAnIdThatIsEchoedAndLogged(t *testing.T) {
	w := newWorld(t, api.Limits{})
	require.Equal(t, "job-7.a_B", w.do("GET", "/v1/codes", "", "X-Request-Id: job-7.a_B").head.Get("X-Request-Id"))
	eventually(t, func() bool { return strings.Contains(w.log.text(), `"requestId":"job-7.a_B"`) }, "not logged")
	made := regexp.MustCompile(`^[0-9a-f-]{36}$`)
	for _, id := range []string{"", "a b", strings.Repeat("a", 129), "x\tINFO"} {
		require.Regexp(t, made, w.do("GET", "/healthz", "", "X-Request-Id: "+id).head.Get("X-Request-Id"))
	}
}

func TestARequestIsOneLineOfTheLogWhateverItsPathHolds(t *testing.T) {
	w := newWorld(t, api.Limits{})
	w.do("GET", "/v1/x%0a%7b%22level%22:%22ERROR%22%7d%1b[31m?q=secret", "").problem(404, "NOT_FOUND")
	eventually(t, func() bool { return strings.Contains(w.log.text(), "\n") }, "not logged")
	lines := strings.Split(strings.TrimSpace(w.log.text()), "\n")
	require.Len(t, lines, 1)
	var line map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &line))
	require.Equal(t, "INFO", line["level"])
	require.Equal(t, "alice", line["key"])
	require.NotContains(t, lines[0], "\x1b")
	require.NotContains(t, lines[0], "secret")
	require.NotContains(t, lines[0], aliceKey)
}
