package trace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMtraceSplit(t *testing.T) {
	tests := []struct {
		in   string
		want string // operation, pointer, size, caller; empty: no operation
	}{
		{"@ x:[0x1] + 0x1000 0x20", "+ 1000 20 @ x:[0x1]"},
		{"@ x:[0x1] > 0xffffffffffffffff 0", "> ffffffffffffffff 0 @ x:[0x1]"},
		{"@ x:[0x1] ! 0xabc (nil)", "! abc 0 @ x:[0x1]"},
		{"@ a b:[0x1] - 0x1000", "- 1000 0 @ a b:[0x1]"},
		{"< 0x1000", "< 1000 0 "},
		{"+ (nil) 0x1", "+ 0 1 "},
		{"", ""},
		{"+", ""},
		{"0x1000 0x20", ""},
		{"x:[0x1] + 0x1000 0x20", ""},
		{"@ x:[0x1] + 0x1000", ""},
		{"@ x:[0x1] * 0x1000 0x20", ""},
		{"@ x:[0x1] ++ 0x1000 0x20", ""},
		{"@ x:[0x1] + 1000 0x20", ""},
		{"@ x:[0x1] + 0x 0x20", ""},
		{"@ x:[0x1] + 0x10000000000000000 0x20", ""},
		{"@ x:[0x1] + 0x1000 0x2G", ""},
		{"@ x:[0x1] + 0x1000  0x20", ""},
		{"@ x:[0x1] + 0x1000 0x20 ", ""},
		{"@ x:[0x1] - -0x1000", ""},
	}
	for _, test := range tests {
		got := ""
		if m, ok := mtraceSplit([]byte(test.in)); ok {
			got = fmt.Sprintf("%c %x %x %s", m.op, m.ptr, m.size, m.caller)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.in, diff)
		}
	}
}

func TestMtraceDetect(t *testing.T) {
	tests := []struct {
		in   string
		want bool
	}{
		{"= Start\n", true},
		{"= Start\r\n", true},
		{"@ x:[0x1] + 0x1000 0x20\n", true},
		{"lost beginning\n- 0x1000\n", true},
		{"@ x:[0x1] + 0x1000 0x20", false}, // cut: nothing whole
		{"= Start", false},
		{"allocfuzz 1\ncpu0 a = malloc 8\n", false},
		{"20000\n3\n6\n1\na 0 512\nf 0\n", false},
		{strings.Repeat("\n", 64) + "= Start\n", false},
	}
	for _, test := range tests {
		if got := mtraceDetect([]byte(test.in)); got != test.want {
			t.Errorf("%q: got %v, want %v", test.in, got, test.want)
		}
	}
}
