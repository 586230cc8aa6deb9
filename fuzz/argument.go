package fuzz

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Stdin is what messages call standard input.
const Stdin = "<stdin>"

// Argument spells the name of a file as a shell takes it in a command.
func Argument(file string) string {
	plain := func(c rune) bool {
		return c < utf8.RuneSelf && (unicode.IsLetter(c) || unicode.IsDigit(c)) ||
			strings.ContainsRune("_@%+=:,./-", c)
	}
	odd := strings.ContainsFunc(file, func(c rune) bool { return !plain(c) })
	switch {
	case file == Stdin:
		return "-"
	case strings.HasPrefix(file, "-"):
		return Argument("./" + file)
	case strings.ContainsFunc(file, func(c rune) bool { return !unicode.IsPrint(c) }) ||
		!utf8.ValidString(file):
		quoted := strconv.QuoteToASCII(file)
		return "$'" + strings.ReplaceAll(quoted[1:len(quoted)-1], "'", `\'`) + "'"
	case odd || file == "":
		return "'" + strings.ReplaceAll(file, "'", `'\''`) + "'"
	}
	return file
}
