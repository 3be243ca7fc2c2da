package shell

// What the tests hold against their promises.
var (
	Check       = checkRun
	ExitMeaning = func(in RunInput, code int) string { return exitMeaning(in.mainProgram(), code) }
	Restriction = restrictionOf
)
