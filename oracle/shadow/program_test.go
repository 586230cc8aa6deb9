package shadow_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

// test runs a program that nobody lies about.
func (p *program) test(t *testing.T, subjectName string) {
	t.Helper()
	c := compile(t, p.text)
	var list []seen
	res := runner.Run(c, lying(subject(t, subjectName), &lie{}, &list), oracle.Options{})
	for _, f := range res.Faults {
		t.Errorf("%s: line %d: %s", f.Title, f.Where.Line+1, f.Detail)
	}
	var skipped []int
	for i := range res.Events {
		if e := &res.Events[i]; e.Outcome == impls.Skipped {
			skipped = append(skipped, int(e.Op)+1)
		}
	}
	if diff := cmp.Diff(p.skips, skipped); diff != "" {
		t.Errorf("skipped lines (-want +got):\n%s", diff)
	}
	if res.Counts.Checked[fault.Reports] == 0 {
		t.Error("no reports were held against the rules")
	}
	if diff := cmp.Diff(p.want, said(c, list)); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}
