// Package gofuzz is the file format of the go command's fuzz corpora, for targets of one []byte:
// a line with the version and a Go literal. The go command names a file by its contents.
package gofuzz

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// version is the first line of a file.
const version = "go test fuzz v1"

// Encode returns the text of the file that holds an input.
func Encode(data []byte) []byte {
	return fmt.Appendf(nil, "%s\n[]byte(%q)\n", version, data)
}

// Is says whether a text claims to be such a file.
func Is(text []byte) bool { return strings.HasPrefix(string(text), version) }

// Decode returns the input that a file holds. The error says what is expected where.
func Decode(text []byte) ([]byte, error) {
	head, value, _ := strings.Cut(string(text), "\n")
	if strings.TrimRight(head, "\r") != version {
		return nil, fmt.Errorf("1: expected %q", version)
	}
	value, isBytes := strings.CutPrefix(strings.TrimSpace(value), "[]byte(")
	value, closed := strings.CutSuffix(value, ")")
	if !isBytes || !closed {
		return nil, errors.New(`2: expected one value and no more, []byte("…")`)
	}
	data, err := strconv.Unquote(value)
	if err != nil || value[0] == '\'' {
		return nil, errors.New("2: the []byte is no Go string")
	}
	return []byte(data), nil
}

// Name is what the go command calls a file of that text: 16 hexadecimal digits.
func Name(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text))[:16] }
