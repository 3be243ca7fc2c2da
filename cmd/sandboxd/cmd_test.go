package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime/ledger"
)

func TestServingWithoutAKeyIsForLoopbackOnly(t *testing.T) {
	for listen, fine := range map[string]bool{
		"127.0.0.1:0": true, "[::1]:0": true, "localhost:8080": true,
		"0.0.0.0:8080": false, ":8080": false, "192.0.2.1:80": false, "example.org:80": false, "nonsense": false,
	} {
		err := (&serveCmd{Listen: listen, NoAuth: true}).check()
		require.Equal(t, fine, err == nil, "%s: %v", listen, err)
	}
	require.NoError(t, (&serveCmd{Listen: "0.0.0.0:8080"}).check(), "control: with a key any address serves")
}

func TestAnAllowedHostRootIsResolvedOnce(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	real, err := filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(dir, link))
	c := &serveCmd{Listen: "127.0.0.1:0", AllowHostRoot: []string{link}}
	require.NoError(t, c.check())
	require.Equal(t, []string{real}, c.AllowHostRoot)
	require.ErrorContains(t, (&serveCmd{Listen: "127.0.0.1:0", AllowHostRoot: []string{dir + "/none"}}).check(), "none")
}

func TestDoctorKnowsRuncWithTheMaskedPathHoles(t *testing.T) {
	for version, old := range map[string]bool{
		"1.1.5+ds1": true, "1.1.15": true, "1.2.7": true, "1.2.8": false, "1.3.2": true, "1.3.3": false, "1.4.0": false, "2.0.0": false, "weird": true,
	} {
		require.Equal(t, old, olderRunc(version), version)
	}
}

func TestAnOwnerKeepsItsName(t *testing.T) {
	dir := t.TempDir()
	first, err := ownerID(dir)
	require.NoError(t, err)
	again, err := ownerID(dir)
	require.NoError(t, err)
	require.Equal(t, first, again)
	other, err := ownerID(t.TempDir())
	require.NoError(t, err)
	require.NotEqual(t, first, other)
}

func TestRelocateMovesEveryNameOfAPatch(t *testing.T) {
	require.Equal(t,
		"diff --git a/sub/x.py b/sub/x.py\n--- a/sub/x.py\n+++ b/sub/x.py\n@@ -1 +1 @@\n-a\n+b\n",
		relocate("diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n", "sub/"))
}

func TestWrongUsageExitsTwo(t *testing.T) {
	require.Equal(t, 2, run([]string{"no-such-command"}))
	require.Equal(t, 0, run([]string{"version"}), "control")
}

func TestALedgerThatIsNotThereIsToldWithTheFlagThatNamesIt(t *testing.T) {
	dir := t.TempDir()
	err := verifyCmd{Data: dir}.Run(t.Context())
	require.ErrorContains(t, err, dir)
	require.ErrorContains(t, err, "--data")
	require.NoFileExists(t, filepath.Join(dir, "ledger.db"), "looking makes none")
	l, err := ledger.Open(t.Context(), ledger.Config{Path: filepath.Join(dir, "ledger.db")})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NoError(t, verifyCmd{Data: dir}.Run(t.Context()), "control: one that is there")
}
