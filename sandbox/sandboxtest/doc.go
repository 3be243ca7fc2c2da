// Package sandboxtest holds the promises of a box as tests: one contract suite
// ([RunContract]) that every driver passes, kill trials in large number
// ([RunKillTrials]), and a box without a container ([NewLocal]) whose agent runs
// in the test's own process, for whatever wants real commands and real files
// but no engine.
//
// Every denial in the suite stands beside a control that passes: a probe that
// fails for another reason than the one that is meant proves nothing.
package sandboxtest
