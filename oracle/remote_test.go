package oracle_test

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/remote"
	"allocfuzz/oracle"
	"allocfuzz/oracle/sched"
)

// A far is a subject at the other end of a pipe: a process that is not one. How it
// dies is written down first, as whoever watches a real process would.
type far struct {
	mu  sync.Mutex
	how string
}

func (f *far) set(how string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.how = how
}

func (f *far) why() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.how
}

// remoteOf is v behind a pipe; death is what the subject says before it panics.
func remoteOf(v *impls.Variant, death string) *impls.Variant {
	there := *v
	there.New = nil
	there.Dial = func() (impls.Player, error) {
		f := &far{}
		near, distant := net.Pipe()
		go func() {
			defer distant.Close()
			defer func() {
				if recover() != nil {
					f.set(death)
				}
			}()
			_ = remote.Serve(distant, v, nil)
		}()
		return remote.NewPlayer(near, remote.Options{Why: f.why}), nil
	}
	return &there
}

// TestRemoteAsInProcess: one program gives the same verdict on a subject in this
// process and behind a pipe, whatever is wrong with it.
func TestRemoteAsInProcess(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	reuse := rule{how: "memory that realloc left",
		text: "cpu0 a = malloc 8\ncpu0 a = realloc a 48\ncpu0 b = malloc 8\ncpu0 a = realloc a 8\n"}
	for _, row := range slices.Concat(ownershipRules, contentsRules, []rule{reuse}) {
		if row.title == fault.OutsideSlab || row.title == fault.OutsideArena {
			continue // nobody looks into a remote subject
		}
		t.Run(string(row.title)+"/"+row.how, func(t *testing.T) {
			p := compile(t, "allocfuzz 1\n"+row.text)
			opt := oracle.Options{Checks: oracle.AllChecks.Without(fault.Structure)}
			for _, bug := range []toyBug{row.bug, row.bug.mended()} {
				v := toySubject(bug)
				here, err := r.Judge(p, v, opt)
				if err != nil {
					t.Fatal(err)
				}
				want := verdictOf(here)
				there, err := r.Judge(p, remoteOf(v, ""), opt)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, verdictOf(there)); diff != "" {
					t.Errorf("in process and remote differ: %s", diff)
				}
			}
		})
	}
}

// seen is what two kinds of subjects must agree in.
type seen struct {
	Identity   string
	Titles     []fault.Title
	Operations int
	Refused    int
	Outcomes   []impls.Outcome
	Lines      []int32
}

func verdictOf(v *oracle.Verdict) seen {
	s := seen{Operations: v.Counts.Operations, Refused: v.Counts.Refused}
	if v.Finding != nil {
		s.Identity = v.Finding.Identity()
		for _, f := range v.Finding.Faults {
			s.Titles = append(s.Titles, f.Title)
		}
	}
	for _, ev := range v.Events {
		s.Outcomes, s.Lines = append(s.Outcomes, ev.Outcome), append(s.Lines, ev.Op)
	}
	return s
}

// TestRemoteRepeat: a batch has no repeats, and what the subject does not support is in the
// transcript in its place, too.
func TestRemoteRepeat(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	p := compile(t, `allocfuzz 1
cache c size=64
cpu0 validate c
cpu0 a = alloc c
cpu0 repeat 2 {
	cpu0 flush c
	cpu0 free c a
	cpu0 a = alloc c
}
cpu0 validate c
`)
	v := toySubject(toyBug{})
	here := r.Run(p, v, oracle.Options{})
	want := verdictOf(&oracle.Verdict{Counts: here.Counts, Events: here.Events})
	there := r.Run(p, remoteOf(v, ""), oracle.Options{})
	if diff := cmp.Diff(want, verdictOf(&oracle.Verdict{Counts: there.Counts,
		Events: there.Events})); diff != "" {
		t.Error(diff)
	}
	if len(want.Outcomes) != 9 {
		t.Errorf("%d events, want 9", len(want.Outcomes))
	}
}

// TestRemoteDeath: a subject that dies is a finding, under the title of how it died,
// at the operation that it died in.
func TestRemoteDeath(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	p := compile(t, "allocfuzz 1\ncpu0 a = malloc 8\ncpu0 free a\ncpu0 b = malloc 16\n"+
		"cpu0 d = malloc 24\n")
	for _, row := range []struct {
		how   string
		call  int
		title fault.Title
		verb  string
	}{
		{"", 1, fault.Exited, "malloc"},
		{"exited: status 3", 3, fault.Exited, "malloc"},
		{"killed: segmentation fault", 2, fault.Killed, "free"},
		{"aborted: free(): invalid pointer", 2, fault.Aborted, "free"},
		{"memory: 5 GB for 12 bytes live", 4, fault.MemoryBlowUp, "malloc"},
		{"hung: no answer in 2 s", 4, fault.Hung, "malloc"},
	} {
		t.Run(string(row.title)+"/"+row.verb, func(t *testing.T) {
			v := toySubject(toyBug{call: func(t *toy, _ *machine.Ctx) {
				if t.calls == row.call {
					panic("toy: died")
				}
			}})
			out, err := r.Judge(p, remoteOf(v, row.how), oracle.Options{})
			if err != nil {
				t.Fatal(err)
			}
			f := out.Finding
			if f == nil || f.Title != row.title || f.Verb != row.verb || len(f.Faults) != 1 ||
				f.Fault.Where.Line != row.call-1 || f.Class != "process" {
				t.Errorf("finding %+v, want %s in %s", f, row.title, row.verb)
			}
			if last := out.Events[len(out.Events)-1]; last.Outcome != impls.Died {
				t.Errorf("the last event is %s", last.Outcome)
			}
		})
	}
}

// garbage answers a batch with bytes that are no transcript.
type garbage struct{ io.ReadWriteCloser }

// TestRemoteErrors: what says nothing about the allocator is an error, not a finding:
// a subject that cannot be started, bytes that are no transcript, a refused batch.
func TestRemoteErrors(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	p := compile(t, "allocfuzz 1\ncpu0 a = malloc 8\n")
	answer := func(b []byte) func() (impls.Player, error) {
		return func() (impls.Player, error) {
			near, distant := net.Pipe()
			go func() {
				defer distant.Close()
				var head [4096]byte
				_, _ = distant.Read(head[:])
				_, _ = distant.Write(b)
			}()
			return remote.NewPlayer(garbage{near}, remote.Options{}), nil
		}
	}
	for _, row := range []struct {
		name string
		dial func() (impls.Player, error)
		want string
	}{
		{"not started", func() (impls.Player, error) { return nil, errors.New("no such file") },
			"no such file"},
		{"garbage", answer([]byte("what is this?")), "remote: byte "},
		{"not an event", answer([]byte{4, 0, 0, 0, 'E', 0xff, 0xff, 0xff}), "remote: byte "},
		{"refused", answer([]byte("\x06\x00\x00\x00Xsorry")), "refused the batch: sorry"},
	} {
		t.Run(row.name, func(t *testing.T) {
			v := &impls.Variant{Name: "far", Machines: []machine.Preempt{machine.PreemptNone},
				Caps: impls.CapSizes, Dial: row.dial}
			for _, opt := range []oracle.Options{{}, {Twice: true}} {
				res := r.Run(p, v, opt)
				if len(res.Faults) > 0 || res.Err == nil {
					t.Fatalf("faults %q, error %v", res.Faults, res.Err)
				}
			}
			_, err := r.Judge(p, v, oracle.Options{})
			if err == nil || !strings.HasPrefix(err.Error(), "far: ") ||
				!strings.Contains(err.Error(), row.want) {
				t.Errorf("error %v, want far: … %s", err, row.want)
			}
			if _, err := r.Explain(p, v, nil, oracle.Options{}); err == nil ||
				!strings.Contains(err.Error(), row.want) {
				t.Errorf("explain: error %v", err)
			}
		})
	}
}

// TestRemoteApplies: a remote subject is left out where it could not follow.
func TestRemoteApplies(t *testing.T) {
	v := remoteOf(toySubject(toyBug{}), "")
	v.Caps &^= impls.CapIRQ
	two := compile(t, "allocfuzz 1\ncache c size=8\ncpu0 a = alloc c\nirq0 b = alloc c\n")
	if ok, why := oracle.Applies(two, v); ok || why == "" {
		t.Errorf("a program with a handler: %v %q", ok, why)
	}
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	out, err := r.Judge(two, v, oracle.Options{})
	if err != nil || out.Left == "" || out.Runs != 0 {
		t.Errorf("judged: %+v, %v", out, err)
	}
	one := compile(t, "allocfuzz 1\ncpu0 a = malloc 8\n")
	wantPanic(t, "a schedule for a remote subject", func() {
		r.Run(one, v, oracle.Options{Chooser: &sched.Survey{}})
	})
}

func wantPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if s, _ := recover().(string); !strings.HasPrefix(s, "allocfuzz:") ||
			!strings.Contains(s, want) {
			t.Errorf("panic %q, want allocfuzz: … %s", s, want)
		}
	}()
	f()
}

// program parses text.
func program(tb testing.TB, text string) *prog.Program {
	tb.Helper()
	p, err := prog.ParseString(text)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}
