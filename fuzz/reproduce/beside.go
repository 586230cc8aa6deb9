package reproduce

import (
	"fmt"
	"slices"
	"strings"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/impls"
)

// Beside writes what can be handed on of a program beside its file: STEM.gotest, which is the
// Go test; STEM.c; and STEM.TARGET.input, which is the input of go test -fuzz. Of what a program
// cannot be made into there is no file. The names of those written come back, sorted.
func Beside(file string, subjects []*impls.Variant, identity string, p *prog.Program) ([]string,
	error) {
	stem := strings.TrimSuffix(strings.TrimSuffix(file, ".min"), ".prog")
	stem = strings.TrimSuffix(stem, ".min")
	texts := map[string][]byte{}
	text, err := GoTest("allocfuzz_test", subjects, identity, p)
	if err != nil {
		return nil, err
	}
	texts[stem+".gotest"] = text
	if text, _, err := C(identity, p); err == nil {
		texts[stem+".c"] = text
	}
	if target, _, text, err := Input(subjects, identity, p); err == nil {
		texts[fmt.Sprintf("%s.%s.input", stem, target)] = text
	}
	var names []string
	for name, text := range texts { //tidy:maporder each has a file of its own, sorted below
		if err := fuzz.WriteBytes(name, text); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}
