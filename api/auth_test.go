package api_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/api"
)

func TestOnlyAKnownKeyOpensTheAPI(t *testing.T) {
	w := newWorld(t, api.Limits{})
	run := "/v1/runs/" + w.kernel.addRun("a")
	for _, path := range []string{"/v1/runs", "/v1/tools", "/v1/codes", run, run + "/calls", "/v1/nothing", "/v1/artifacts/" + newID("art_")} {
		for _, header := range []string{
			"Authorization:", "Authorization: Bearer", "Authorization: Bearer wrong", "Authorization: Basic " + aliceKey,
			"Authorization: " + aliceKey, "Authorization: Bearer " + aliceKey + "x", "Authorization: Bearer " + aliceKey[:len(aliceKey)-1],
		} {
			a := w.do("GET", path, "", header)
			a.problem(401, "UNAUTHORIZED")
			require.Contains(t, a.head.Get("WWW-Authenticate"), "Bearer")
		}
	}
	w.do("POST", run+"/calls", `{"toolName": "echo"}`, "Authorization:").problem(401, "UNAUTHORIZED")
	require.Empty(t, w.kernel.proposals)
	require.Equal(t, 200, w.do("GET", run, "").status) // the control
	require.Equal(t, 200, w.do("GET", run, "", "Authorization: bearer "+aliceKey).status)
}

func TestHealthNeedsNoKey(t *testing.T) {
	w := newWorld(t, api.Limits{})
	for _, path := range []string{"/healthz", "/readyz"} {
		require.Equal(t, 200, w.do("GET", path, "", "Authorization:").status, path)
	}
	w.kernel.unready = os.ErrClosed
	w.do("GET", "/readyz", "", "Authorization:").problem(503, "UNAVAILABLE")
	require.Equal(t, 200, w.do("GET", "/healthz", "", "Authorization:").status)
}

func TestAnotherTenantsRunIsAsUnknownAsNone(t *testing.T) {
	w := newWorld(t, api.Limits{})
	id := w.kernel.addRun("a")
	art := w.kernel.addArtifact(id, "stdout", "text/plain", map[string]string{"redacted": "x"})
	paths := []struct{ method, path, body string }{
		{"GET", "/v1/runs/%", ""}, {"PATCH", "/v1/runs/%", `{"state": "DONE"}`}, {"DELETE", "/v1/runs/%", ""},
		{"GET", "/v1/runs/%/tools", ""}, {"POST", "/v1/runs/%/calls", `{"toolName": "echo"}`}, {"GET", "/v1/runs/%/calls", ""},
		{"POST", "/v1/runs/%/batches", `{"calls": [{"toolName": "echo"}]}`}, {"GET", "/v1/runs/%/events", ""},
		{"GET", "/v1/runs/%/artifacts", ""}, {"GET", "/v1/runs/%/diff", ""}, {"GET", "/v1/runs/%/workspace", ""}, {"PUT", "/v1/runs/%/workspace", ""},
	}
	for _, row := range paths {
		foreign := w.do(row.method, strings.Replace(row.path, "%", id, 1), row.body, "Authorization: Bearer "+bobKey)
		none := w.do(row.method, strings.Replace(row.path, "%", newID("run_"), 1), row.body, "Authorization: Bearer "+bobKey)
		require.Equal(t, none.problem(404, "NOT_FOUND")["detail"], foreign.problem(404, "NOT_FOUND")["detail"], row.path)
	}
	foreign := w.do("GET", "/v1/artifacts/"+art.ID, "", "Authorization: Bearer "+bobKey)
	none := w.do("GET", "/v1/artifacts/"+newID("art_"), "", "Authorization: Bearer "+bobKey)
	require.Equal(t, none.problem(404, "NOT_FOUND")["detail"], foreign.problem(404, "NOT_FOUND")["detail"])
	require.Empty(t, w.do("GET", "/v1/runs", "", "Authorization: Bearer "+bobKey).object()["runs"])
	require.Empty(t, w.kernel.proposals)
	require.Empty(t, w.kernel.patches)
	// the controls
	require.Len(t, w.do("GET", "/v1/runs", "").object()["runs"], 1)
	require.Equal(t, 200, w.do("GET", "/v1/runs/"+id, "").status)
	require.Equal(t, 200, w.do("GET", "/v1/artifacts/"+art.ID, "").status)
}

func TestTheAdminKeyIsMadeOnceShownOnceAndKeptHashed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	first, key, err := api.LoadAuth(dir, "")
	require.NoError(t, err)
	require.Regexp(t, `^sbx_[0-9A-Za-z]{10}_[0-9A-Za-z]{43}$`, key)
	second, shown, err := api.LoadAuth(dir, "")
	require.NoError(t, err)
	require.Empty(t, shown)
	for _, auth := range []*api.Auth{first, second} {
		who, ok := auth.Authenticate(key)
		require.True(t, ok)
		require.True(t, who.May(api.ScopeAdmin))
		require.NotContains(t, who.KeyID, strings.Split(key, "_")[2])
		for _, wrong := range []string{"", key + "a", key[:len(key)-1], strings.ToLower(key), who.KeyID} {
			_, ok := auth.Authenticate(wrong)
			require.False(t, ok, wrong)
		}
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
	info, err := files[0].Info()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	raw, err := os.ReadFile(filepath.Join(dir, files[0].Name()))
	require.NoError(t, err)
	require.NotContains(t, string(raw), key)
	require.NotContains(t, string(raw), strings.Split(key, "_")[2])
}

func TestAKeyOfTheEnvironmentIsTheOnlyOneOfItsStart(t *testing.T) {
	dir := t.TempDir()
	_, made, err := api.LoadAuth(dir, "")
	require.NoError(t, err)
	chosen := "any string of thirty-two characters"
	auth, shown, err := api.LoadAuth(dir, chosen)
	require.NoError(t, err)
	require.Empty(t, shown)
	_, ok := auth.Authenticate(chosen)
	require.True(t, ok)
	_, ok = auth.Authenticate(made)
	require.False(t, ok)
	later, _, err := api.LoadAuth(dir, "")
	require.NoError(t, err)
	_, ok = later.Authenticate(made)
	require.True(t, ok)
	_, ok = later.Authenticate(chosen)
	require.False(t, ok)
}

func TestAKeyThatCouldBeGuessedOrNotBeSentIsRefused(t *testing.T) {
	for _, key := range []string{"short", strings.Repeat("a", 31), " " + strings.Repeat("a", 32), strings.Repeat("a", 32) + "\n", strings.Repeat("a", 16) + "\x00" + strings.Repeat("a", 16)} {
		_, _, err := api.LoadAuth(t.TempDir(), key)
		require.ErrorContains(t, err, "SANDBOXD_API_KEY", "%q", key)
		require.NotContains(t, err.Error(), key)
	}
	_, _, err := api.LoadAuth(t.TempDir(), strings.Repeat("ä", 32))
	require.NoError(t, err)
}

func TestAKeyFileThatCannotBeReadStopsTheStart(t *testing.T) {
	for _, content := range []string{"", "{", `{"sha256": "zz"}`, `{"sha256": "00"}`} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "admin.json"), []byte(content), 0o600))
		_, _, err := api.LoadAuth(dir, "")
		require.ErrorContains(t, err, "delete it", content)
	}
}

func TestWithoutAuthEveryRequestIsTheAdmins(t *testing.T) {
	who, ok := api.NoAuth().Authenticate("")
	require.True(t, ok)
	require.True(t, who.May(api.ScopeArtifactsRaw))
	kernel := newFakeKernel()
	handler := api.New(api.Config{Kernel: kernel, Auth: api.NoAuth()})
	rec := httptest.NewRecorder()
	req := httptest.NewRequest("POST", "/v1/runs", nil)
	req.Host = "localhost:1"
	handler.ServeHTTP(rec, req)
	require.Equal(t, 201, rec.Code, rec.Body)
	require.Equal(t, who.Tenant, kernel.options[0].Tenant)
}

func TestAForeignHostOrOriginIsRefused(t *testing.T) {
	w := newWorld(t, api.Limits{})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(w.url, "http://"))
	require.NoError(t, err)
	for _, host := range []string{"evil.test", "evil.test:" + port, "127.0.0.1.evil.test", "localhost.evil.test:" + port, "xlocalhost"} {
		w.do("GET", "/v1/runs", "", "Host: "+host).problem(403, "FORBIDDEN")
		w.do("GET", "/healthz", "", "Host: "+host).problem(403, "FORBIDDEN")
	}
	for _, origin := range []string{"http://evil.test", "null", "https://evil.test:" + port, "http://localhost:1", "::"} {
		w.do("POST", "/v1/runs", "{}", "Origin: "+origin).problem(403, "FORBIDDEN")
	}
	require.Empty(t, w.kernel.specs)
	for _, host := range []string{"127.0.0.1:" + port, "localhost:" + port, "[::1]:" + port, "LOCALHOST", "box.localhost"} {
		require.Equal(t, 200, w.do("GET", "/v1/runs", "", "Host: "+host).status, host)
	}
	require.Equal(t, 201, w.do("POST", "/v1/runs", "{}", "Origin: "+w.url).status)
}

func TestTheOperatorNamesTheHostsOfAServiceBeyondLoopback(t *testing.T) {
	status := func(cfg api.Config, host string) int {
		cfg.Kernel, cfg.Auth = newFakeKernel(), testKeys()
		req := httptest.NewRequest(http.MethodGet, "/healthz", nil)
		req.Host = host
		rec := httptest.NewRecorder()
		api.New(cfg).ServeHTTP(rec, req)
		return rec.Code
	}
	open := api.Config{Address: "[::]:8080"}
	require.Equal(t, 200, status(open, "sandboxd:8080"))
	named := api.Config{Address: "[::]:8080", AllowedHosts: []string{"Sandboxd"}}
	require.Equal(t, 200, status(named, "sandboxd:8080"))
	require.Equal(t, 403, status(named, "evil.test:8080"))
	local := api.Config{Address: "127.0.0.1:8080", AllowedHosts: []string{"sandboxd"}}
	require.Equal(t, 200, status(local, "sandboxd:8080"))
	require.Equal(t, 403, status(local, "evil.test"))
}
