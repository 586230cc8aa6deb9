package subject

import (
	"fmt"
	"strings"

	"allocfuzz/fuzz/gofuzz"
)

// command is how an input or a program is run again. test is the name of the running test: with a
// part behind the slash for a seed or a file, without under the fuzzing engine, which knows its
// seeds by number and writes any other input to a file whose name is a hash of its text.
func (h *harness) command(test string, data []byte) string {
	target, file, ok := strings.Cut(test, "/")
	if i, seed := h.seeds[string(data)]; !ok && seed {
		file = fmt.Sprintf("seed#%d", i)
	} else if !ok {
		file = gofuzz.Name(gofuzz.Encode(data)) // the file below testdata/fuzz
	}
	return fmt.Sprintf("go test -run='^%s$/^%s$'", target, file)
}
