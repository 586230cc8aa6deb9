package subject

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// command is how an input or a program is run again. test is the name of the running test: with a
// part behind the slash for a seed or a file, without under the fuzzing engine, which knows its
// seeds by number and writes any other input to a file whose name is a hash of its text.
func (h *harness) command(test string, data []byte) string {
	target, file, ok := strings.Cut(test, "/")
	if i, seed := h.seeds[string(data)]; !ok && seed {
		file = fmt.Sprintf("seed#%d", i)
	} else if !ok {
		file = corpusName(data)
	}
	return fmt.Sprintf("go test -run='^%s$/^%s$'", target, file)
}

// corpusName is the name of the file, below testdata/fuzz, that go test -fuzz writes a failing
// input to.
func corpusName(data []byte) string {
	text := fmt.Sprintf("go test fuzz v1\n[]byte(%q)\n", data)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:16]
}
