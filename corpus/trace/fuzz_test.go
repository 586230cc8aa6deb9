package trace

import (
	"errors"
	"strings"
	"testing"

	"allocfuzz/corpus/prog"
)

// FuzzImport imports any bytes. There is never a panic; an error is an *Error; a program parses, is
// canonical, and uses only names of live objects, as many as the result counts.
func FuzzImport(f *testing.F) {
	for _, test := range imports {
		f.Add([]byte(text(test.in)))
	}
	f.Add([]byte(""))
	f.Add([]byte("= Start\n= End\n"))
	f.Add([]byte("\x7fELF\x02\x01\x00\x00"))
	f.Add([]byte("@ x:[0x1] + 0x1000 0x7fffffffffff\n@ x:[0x1] + 0x2000 0x800000000000\n- 0x10"))
	f.Add([]byte(churn(3)))
	for _, s := range samples {
		in := sample(f, s.file)
		f.Add([]byte(in))
		f.Add([]byte(packings(f, in)[0]))
		f.Add([]byte(packings(f, in)[1]))
		for _, bad := range badLines[s.format] {
			f.Add([]byte(firstGood[s.format] + bad + "\n"))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, format := range append(Formats(), "") {
			for _, opt := range []Options{{}, {Strict: true}, {From: 2, To: 4}} {
				opt.File = "f"
				p, res, err := Program(format, strings.NewReader(string(in)), opt)
				var e *Error
				switch {
				case err == nil:
					checkProgram(t, p, &res)
					if opt.To > 0 && len(p.Lines) > opt.To-opt.From+1 {
						t.Fatalf("%d operations in a slice of 3", len(p.Lines))
					}
				case !errors.As(err, &e):
					t.Fatalf("error %v is no *Error", err)
				case p != nil:
					t.Fatalf("a program beside the error %v", err)
				}
			}
		}
	})
}

func checkProgram(t *testing.T, p *prog.Program, res *Result) {
	t.Helper()
	text := p.String()
	again, err := prog.ParseString(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if got := again.String(); got != text {
		t.Fatalf("not canonical: printed\n%s\nformatted\n%s", text, got)
	}
	live := checkNames(t, p)
	if len(p.Lines) != res.Operations || live != res.LiveObjects {
		t.Fatalf("got %d lines and %d live, counted %d and %d\n%s",
			len(p.Lines), live, res.Operations, res.LiveObjects, text)
	}
	if p.Machine.Pages != res.Pages || res.Pages&(res.Pages-1) != 0 {
		t.Fatalf("got pages=%d, counted %d", p.Machine.Pages, res.Pages)
	}
}

// checkNames follows a program of sizes. Only live names may be used, only others bound. It returns
// how many are live at the end.
func checkNames(t *testing.T, p *prog.Program) int {
	t.Helper()
	live := make(map[string]bool)
	for i := range p.Lines {
		l := &p.Lines[i]
		for _, name := range l.Results {
			if live[name] {
				t.Fatalf("operation %d binds %s, which is live", i+1, name)
			}
			live[name] = true
		}
		for _, name := range l.Slots {
			if !live[name] {
				t.Fatalf("operation %d uses %s, which is not live", i+1, name)
			}
			delete(live, name)
		}
	}
	return len(live)
}
