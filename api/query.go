package api

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/schema"
)

// maxPage is the most rows that one page holds, defaultPage what a list gives
// unasked.
const (
	maxPage     = 1000
	defaultPage = 100
	// pageStep is how many rows are read at a time, and heavyPage the bytes of
	// arguments and outputs after which a page ends early: a row may weigh
	// megabytes.
	pageStep  = 50
	heavyPage = 16 << 20
)

// query reads the query string, and refuses a parameter that the endpoint does
// not have: one that is misspelt would otherwise be ignored in silence. Only
// label may be given more than once.
func query(r *http.Request, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("The query string cannot be read.")
	}
	for name, values := range q {
		if !slices.Contains(known, name) {
			return nil, unknownParameter(name, known)
		}
		if len(values) > 1 && name != "label" {
			return nil, badRequest("The query parameter %s is given %d times.", name, len(values))
		}
	}
	return q, nil
}

func unknownParameter(name string, known []string) error {
	hint := "It takes none."
	if len(known) > 0 {
		hint = "It takes " + strings.Join(known, ", ") + "."
	}
	if near := schema.Nearest(name, known); near != "" {
		hint = "Did you mean " + near + "?"
	}
	return badRequest("This path has no query parameter %s. %s", strconv.Quote(clip(name)), hint)
}

// clip bounds what an answer repeats of a request.
func clip(text string) string {
	if r := []rune(text); len(r) > 80 {
		return string(r[:79]) + "…"
	}
	return text
}

// page reads limit and cursor.
func page(q url.Values) (runtime.Page, error) {
	limit, err := intParam(q, "limit", defaultPage, 1, maxPage)
	cursor := q.Get("cursor")
	if err == nil && len(cursor) > 512 {
		err = badRequest("The cursor is not one that this service gave. Start again without a cursor.")
	}
	return runtime.Page{Limit: int(limit), Cursor: cursor}, err
}

// intParam reads an integer parameter; standard is its value where it is left
// out.
func intParam(q url.Values, name string, standard, low, high int64) (int64, error) {
	if !q.Has(name) {
		return standard, nil
	}
	n, err := strconv.ParseInt(q.Get(name), 10, 64)
	if err != nil || n < low || n > high {
		return 0, badRequest("%s must be an integer from %d to %d.", name, low, high)
	}
	return n, nil
}

// choice reads a parameter of a closed list; the first is the default.
func choice(q url.Values, name string, choices ...string) (string, error) {
	if !q.Has(name) {
		return choices[0], nil
	}
	if v := q.Get(name); slices.Contains(choices, v) {
		return v, nil
	}
	named := slices.DeleteFunc(slices.Clone(choices), func(c string) bool { return c == "" })
	return "", badRequest("%s must be one of %s.", name, strings.Join(named, ", "))
}

// uuid7 is the form of a UUIDv7 (RFC 9562, section 5.7), canonical.
const uuid7 = `[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`

var idForms = map[string]*regexp.Regexp{
	"run":      regexp.MustCompile(`^run_` + uuid7),
	"call":     regexp.MustCompile(`^call_` + uuid7),
	"artifact": regexp.MustCompile(`^art_` + uuid7),
}

// pathID reads the id of a kind ("run") from the path. One of another form
// names nothing.
func pathID(r *http.Request, kind string) (string, error) {
	id := chi.URLParam(r, kind+"Id")
	if !idForms[kind].MatchString(id) {
		return "", unknownID(kind)
	}
	return id, nil
}

// unknownID is the one answer for ids that were never given, are another
// tenant's, or are no ids at all.
func unknownID(kind string) error {
	return runtime.Problemf(runtime.ProblemNotFound, "There is no such %s.", kind)
}

// hideMissing gives an unknown id the one answer that all of them get.
func hideMissing(err error, kind string) error {
	if err != nil && asProblem(err).Code == runtime.ProblemNotFound {
		return unknownID(kind)
	}
	return err
}
