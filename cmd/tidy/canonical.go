package main

import (
	"bytes"

	"allocfuzz/corpus/prog"
)

// canonical gives the one spelling of a program.
func canonical(file string, content []byte) ([]byte, error) {
	p, err := prog.Parse(file, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return []byte(prog.Format(p)), nil
}
