package report

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/engine"
	"allocfuzz/impls/all"
)

// hostile is what a title, a path or a comment could be made of to break out of a page.
const hostile = `</script><script>alert(1)</script><img src=x onerror=alert(1)>"'` + "`" +
	`]]>&%0A::error::|` + "\u2028\n\x01"

// regression is a committed program that shows something, and its subject.
func regression(tb testing.TB, file string) (*prog.Program, string) {
	tb.Helper()
	for f := range corpus.Regress() {
		if strings.HasSuffix(f.Name, file) {
			p, err := f.Program()
			if err != nil {
				tb.Fatal(err)
			}
			return p, p.Scheds[0].Subject
		}
	}
	tb.Fatal(file)
	return nil, ""
}

// run is a run in a folder with one real finding and one hostile one.
func run(tb testing.TB) (*Run, string) {
	tb.Helper()
	dir := tb.TempDir()
	p, subject := regression(tb, "slub-2008-cmpxchg-aba.prog")
	p.Doc = append(p.Doc, "# "+strings.NewReplacer("\n", "", "\x01", "").Replace(hostile))
	at := filepath.Join(dir, "aba <script>.prog")
	if err := os.WriteFile(at, prog.Format(p), 0o666); err != nil {
		tb.Fatal(err)
	}
	r := &Run{Schema: 1, Command: "run", Complete: true, Seconds: 2.5,
		Subjects: []Subject{{"slub-2008-seq", true, 10, 200, .125}, {hostile, false, 0, 0, 0}},
		Targets:  []Target{{"FuzzSMP", 1000, 2, 7, 20}},
		Programs: []Program{{"seeds/a.prog", map[string]string{}},
			{"regress/b.prog", map[string]string{"slub-2008-seq": "known: " + hostile,
				"slab-locked": "left out: no"}}},
		Samples: []Sample{{"FuzzSMP", 1, 500, 5}, {"FuzzSMP", 2, 1000, 7}},
		Findings: []engine.Finding{
			{Title: "object handed out twice", Class: "ownership", Subject: subject,
				Identity: subject + ": object handed out twice in alloc", File: at, Count: 3,
				Place: at + ":16", Command: "allocfuzz replay " + hostile},
			{Title: hostile, Also: []string{hostile}, Class: hostile, Subject: hostile,
				Identity: hostile, File: hostile, Command: hostile, HandOn: []string{hostile}},
			{Title: "slab lost", Class: "structure", Subject: subject, Known: true,
				Identity: subject + ": slab lost"},
		}}
	if err := r.Write(dir); err != nil {
		tb.Fatal(err)
	}
	return r, dir
}

// html is the page of a run.
func html(tb testing.TB, r *Run) string {
	tb.Helper()
	p := NewProjector()
	defer p.Close()
	page := &Page{Title: "allocfuzz " + r.Command, Run: r, Problems: r.Problems,
		Items: p.Items(context.Background(), r, false)}
	b := &bytes.Buffer{}
	if err := page.HTML(b); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

// TestSource: what is written is read back; a line that is half written or of another kind is
// named and the others are kept; findings of a run that was killed are found by their reports; and
// an empty folder is an error that says what was expected.
func TestSource(t *testing.T) {
	want, dir := run(t)
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(want.Subjects)
	b, _ := json.Marshal(got.Subjects)
	if string(a) != string(b) || len(got.Findings) != 3 || len(got.Problems) != 0 ||
		got.Seconds != 2.5 || len(got.Samples) != 2 || len(got.Programs) != 2 ||
		got.Targets[0] != want.Targets[0] {
		t.Errorf("%+v", got)
	}
	name := filepath.Join(dir, SourceFile)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text = append([]byte("{\"kind\":\"other\"}\nnot json\n"), text[:len(text)-40]...)
	if err := os.WriteFile(name, text, 0o666); err != nil {
		t.Fatal(err)
	}
	killed := "TITLE: slub-2008-seq: slab lost\nCLASS: structure\n" +
		"IDENTITY: slub-2008-seq: slab lost\nREPLAY: allocfuzz replay\n\n"
	for name, text := range map[string]string{"k.txt": killed, "k.prog": "allocfuzz 1\n",
		"alone.txt": killed} { //tidy:maporder independent files
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	got, err = Read(dir)
	if err != nil || len(got.Problems) != 3 || len(got.Findings) != 3 {
		t.Fatalf("problems %q, findings %v, error %v", got.Problems, got.Findings, err)
	}
	for i, part := range []string{":1: ", ":2: ", ":" + fmt.Sprint(strings.Count(string(text),
		"\n")+1) + ": "} {
		if !strings.Contains(got.Problems[i], SourceFile+part) {
			t.Errorf("problem %q, want %s", got.Problems[i], part)
		}
	}
	_, err = Read(t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "nothing to report") {
		t.Errorf("an empty folder: %v", err)
	}
}

// TestHostile: nothing in a finding becomes markup, script or another line.
func TestHostile(t *testing.T) {
	r, _ := run(t)
	page := html(t, r)
	if n := strings.Count(page, "<script"); n != 2 {
		t.Errorf("%d scripts, want the page's and one film", n)
	}
	if strings.Contains(page, "<img") || strings.Contains(page, "alert(1)</script>") {
		t.Error("a text became markup")
	}
	if !strings.Contains(page, "&lt;img src=x onerror=alert(1)&gt;") {
		t.Error("the text is not there at all")
	}
	for _, v := range Views() {
		b := &bytes.Buffer{}
		if err := v.Write(b, r); err != nil {
			t.Fatal(err)
		}
		if v.Name == "github" && (strings.Count(b.String(), "\n") != 2 ||
			strings.Contains(b.String(), "\n::error::")) {
			t.Errorf("annotations:\n%s", b)
		}
		inCode := regexp.MustCompile("`[^`\n]*`").ReplaceAllString(strings.ReplaceAll(b.String(),
			"\\`", ""), "")
		if v.Name == "markdown" && strings.Contains(inCode, "<script>") {
			t.Errorf("markdown:\n%s", b)
		}
	}
}

// TestPage: the page has the program, the history, the film and every subject with its zeros, is
// the same each time, and asks nobody for anything.
func TestPage(t *testing.T) {
	r, _ := run(t)
	page := html(t, r)
	for _, want := range []string{"cpu0 a = alloc c", "object handed out twice: 0x100000080",
		`data-line="1"`, `<td class="n">3</td>`, `<td class="n zero">0</td>`, "12.5 %",
		"<polyline", "Also: freelist leaves its slab", `data-from="40"`,
		`<rect class="known" x="265"`, `<rect class="left" x="265"`, "each of the 2 programs"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	if again := html(t, r); again != page {
		t.Error("the same run made another page")
	}
	outside := regexp.MustCompile(`(?i)(src|href)="?(https?:|//)|@import|url\(["']?http|` +
		`fetch\(|XMLHttp`)
	if at := outside.FindString(page); at != "" {
		t.Errorf("it asks for %q", at)
	}
	if strings.Contains(page, "slab lost") && strings.Contains(page, "f3-name") {
		t.Error("a known finding has a section")
	}
}

// TestMatrix: only what nobody expects is counted, and subjects that only findings name are there.
func TestMatrix(t *testing.T) {
	r, _ := run(t)
	m := matrixOf(r)
	sums := map[string]int{}
	for _, row := range m.Rows {
		for _, n := range row.Found {
			sums[row.Name] += n
		}
	}
	if len(m.Rows) != 3 || sums["slub-2008-cmpxchg"] != 1 || sums["slub-2008-seq"] != 0 ||
		sums[hostile] != 1 {
		t.Errorf("%v of %d rows", sums, len(m.Rows))
	}
}

// TestJUnit: it is well-formed, and its counts are those of its cases.
func TestJUnit(t *testing.T) {
	r, _ := run(t)
	r.Problems = []string{"line 3"}
	b := &bytes.Buffer{}
	if err := JUnit(b, r); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Suites   []struct {
			Name  string `xml:"name,attr"`
			Cases []struct {
				Name      string `xml:"name,attr"`
				Classname string `xml:"classname,attr"`
				Failure   *struct {
					Message string `xml:"message,attr"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	failed := 0
	for _, c := range doc.Suites[0].Cases {
		if c.Failure != nil {
			failed++
		}
		if c.Name == "" || c.Classname == "" {
			t.Errorf("a case without a name: %+v", c)
		}
	}
	// slub-2008-seq passes; two findings and what could not be read fail.
	if doc.Tests != 4 || len(doc.Suites[0].Cases) != 4 || failed != 3 || doc.Failures != 3 {
		t.Errorf("%d tests, %d cases, %d and %d failures\n%s", doc.Tests, len(doc.Suites[0].Cases),
			failed, doc.Failures, b)
	}
}

// TestSARIF: it is valid by the schema of SARIF 2.1, with a rule for each title and a result at the
// line of each finding.
func TestSARIF(t *testing.T) {
	for _, empty := range []bool{false, true} {
		r, _ := run(t)
		if empty {
			r = &Run{}
		}
		b := &bytes.Buffer{}
		if err := SARIF(b, r); err != nil {
			t.Fatal(err)
		}
		doc, err := sarif.FromBytes(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if err := doc.Validate(); err != nil {
			t.Errorf("%v\n%s", err, b)
		}
		if empty {
			continue
		}
		got := doc.Runs[0]
		if len(got.Results) != 2 || len(got.Tool.Driver.Rules) != 2 ||
			*got.Results[0].RuleID != "object-handed-out-twice" ||
			*got.Results[0].Locations[0].PhysicalLocation.Region.StartLine != 16 {
			t.Errorf("%s", b)
		}
	}
}

// TestSee: a program is shown on subjects without a finding, too, and what cannot be shown says
// why.
func TestSee(t *testing.T) {
	p, _ := regression(t, "slub-2008-cmpxchg-aba.prog")
	pr := NewProjector()
	defer pr.Close()
	v, _ := all.Lookup("slub-2008-seq")
	if item := pr.Item(t.Context(), p, v); item.Film == nil || item.Film.Report != nil ||
		len(item.Film.Frames) < 40 {
		t.Errorf("%+v", item)
	}
	long := *p
	for range FilmMost {
		long.Lines = append(long.Lines, p.Lines[0])
	}
	item := pr.Item(t.Context(), &long, v)
	if !strings.Contains(item.Problem, "minimise it first") {
		t.Errorf("%+v", item)
	}
}

// BenchmarkPage makes a page of a hundred findings, each with its film.
func BenchmarkPage(b *testing.B) {
	r := &Run{Command: "run", Complete: true}
	dir := b.TempDir()
	for len(r.Findings) < 100 {
		for f := range corpus.Regress() {
			p, err := f.Program()
			if err != nil || len(r.Findings) == 100 || len(p.Scheds) == 0 {
				continue
			}
			at := filepath.Join(dir, fmt.Sprintf("%d.prog", len(r.Findings)))
			if err := os.WriteFile(at, f.Text, 0o666); err != nil {
				b.Fatal(err)
			}
			r.Findings = append(r.Findings, engine.Finding{Title: p.Head.Title, File: at,
				Subject: p.Scheds[0].Subject, Identity: f.Name})
		}
	}
	size := 0
	for b.Loop() {
		p := NewProjector()
		page := &Page{Title: "x", Run: r, Items: p.Items(b.Context(), r, false)}
		out := &bytes.Buffer{}
		if err := page.HTML(io.MultiWriter(out)); err != nil {
			b.Fatal(err)
		}
		p.Close()
		size = out.Len()
	}
	b.ReportMetric(float64(size)/1e6, "MB/page")
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/page")
}
