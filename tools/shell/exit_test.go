package shell_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/tools/shell"
)

func TestKnownExitCodesAreGivenTheirMeaning(t *testing.T) {
	for _, tc := range []struct {
		in   shell.RunInput
		code int
		want string
	}{
		{argv("grep", "x", "f"), 1, "no line matched"},
		{argv("/usr/bin/rg", "x"), 1, "nothing matched"},
		{argv("diff", "a", "b"), 1, "the inputs differ"},
		{script("[ 1 = 2 ]"), 1, "the condition is false"},
		{script("grep x f"), 1, "no line matched"},
		{script("grep x f | head"), 1, ""},
		{argv("timeout", "1", "sleep", "9"), 124, "the program ran into the limit given to timeout"},
		{argv("make"), 2, ""},
		{script("nosuch"), 127, "a program was not found"},
		{script("./data"), 126, "a program was found but could not be executed"},
		{script("make"), 137, "128+9, as shells report a program that SIGKILL ended"},
		{argv("x"), 139, "128+11, as shells report a program that SIGSEGV ended"},
		{argv("x"), 255, ""},
	} {
		require.Equal(t, tc.want, shell.ExitMeaning(tc.in, tc.code), "%v %d", tc.in, tc.code)
	}
}

func TestLimitsOfTheBoxAreRecognisedInOutput(t *testing.T) {
	require.Contains(t, shell.Restriction("curl: (6) Could not resolve host: example.org", ""), "no network")
	require.Contains(t, shell.Restriction("", "cp: cannot create 'x': No space left on device"), "disk")
	require.Contains(t, shell.Restriction("touch: cannot touch '/x': Read-only file system", ""), "read-only")
	require.Contains(t, shell.Restriction("bash: fork: retry: Resource temporarily unavailable", ""), "processes")
	require.Empty(t, shell.Restriction("FAIL: 2 tests failed", "ok"))
}
