package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jstemmer/go-junit-report/v2/junit"
	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/engine"
	"allocfuzz/impls/fault"
)

// A View writes a run in one form.
type View struct {
	Name  string // of --format
	File  string // usual name
	About string
	Write func(io.Writer, *Run) error
}

// Views are the forms besides the page.
func Views() []View {
	return []View{
		{"junit", "junit.xml", "JUnit's XML, for any CI", JUnit},
		{"sarif", "findings.sarif", "SARIF 2.1, for code scanning", SARIF},
		{"markdown", "summary.md", "Markdown, for a job's summary", Markdown},
		{"github", "annotations.txt", "annotations of GitHub Actions, a line each", Annotations},
	}
}

// fresh are the findings that nobody expected.
func (r *Run) fresh() (out []engine.Finding) {
	for i := range r.Findings {
		if !r.Findings[i].Known {
			out = append(out, r.Findings[i])
		}
	}
	return out
}

// means says what a title means, "" for one that is in no table.
func means(title string) string {
	e, _ := fault.Lookup(fault.Title(title))
	return e.Means
}

// JUnit writes a suite with a case for each subject, which fails with what was found of it, and one
// for each line and file of the source that could not be read.
func JUnit(w io.Writer, r *Run) error {
	suite := junit.Testsuite{Name: "allocfuzz " + r.Command, Time: seconds(r.Seconds)}
	add := func(name, class, text string, failed *junit.Result) {
		c := junit.Testcase{Name: clean(name), Classname: clean(class), Failure: failed}
		if text != "" {
			c.SystemOut = &junit.Output{Data: clean(text)}
		}
		suite.AddTestcase(c)
	}
	fresh := r.fresh()
	for i := range r.Subjects {
		s := &r.Subjects[i]
		if !slices.ContainsFunc(fresh, func(f engine.Finding) bool { return f.Subject == s.Name }) {
			text := fmt.Sprintf("%d programs, %d operations", s.Programs, s.Ops)
			add(s.Name, "subject", text, nil)
		}
	}
	for i := range fresh {
		f := &fresh[i]
		add(f.Identity, f.Class, "", &junit.Result{Message: clean(f.Title), Type: clean(f.Class),
			Data: clean(details(f))})
	}
	for _, p := range r.Problems {
		add(p, "source", "", &junit.Result{Message: clean(p), Type: "unreadable"})
	}
	all := junit.Testsuites{Name: suite.Name}
	all.AddSuite(suite)
	if _, err := io.WriteString(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"); err != nil {
		return err
	}
	return all.WriteXML(w)
}

func seconds(s float64) string { return fmt.Sprintf("%.3f", s) }

// clean leaves out what XML cannot hold, and ends no CDATA.
func clean(s string) string {
	s = strings.Map(func(c rune) rune {
		if c == '\t' || c == '\n' || c >= ' ' && c != 0xfffe && c != 0xffff && c != 0xfffd {
			return c
		}
		return -1
	}, s)
	return strings.ReplaceAll(s, "]]>", "]]&gt;")
}

// details says in lines what one wants to know of a finding.
func details(f *engine.Finding) string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s\n%s\n", f.Identity, means(f.Title))
	for _, l := range [][2]string{{"also", strings.Join(f.Also, "; ")}, {"program", f.File},
		{"small", f.Small}, {"replay", f.Command}} {
		if l[1] != "" {
			fmt.Fprintf(b, "%s: %s\n", l[0], l[1])
		}
	}
	return b.String()
}

// SARIF writes a rule for each title and a result for each finding, at the line of its program.
func SARIF(w io.Writer, r *Run) error {
	run := sarif.NewRunWithInformationURI("allocfuzz", "https://pkg.go.dev/allocfuzz")
	run.Tool.Driver.Rules = []*sarif.ReportingDescriptor{}
	run.Results = []*sarif.Result{}
	for _, f := range r.fresh() {
		id := ruleID(f.Title)
		text := means(f.Title)
		if text == "" {
			text = f.Title
		}
		run.AddRule(id).WithName(f.Title).WithShortDescription(
			sarif.NewMultiformatMessageString().WithText(text))
		file, at := f.File, 1
		if f.Small != "" {
			file = f.Small
		} else {
			at = placeLine(f.Place, smallest(&f))
		}
		res := sarif.NewRuleResult(id).WithLevel("error").
			WithMessage(sarif.NewTextMessage(details(&f))).
			WithLocations([]*sarif.Location{sarif.NewLocationWithPhysicalLocation(
				sarif.NewPhysicalLocation().
					WithArtifactLocation(sarif.NewSimpleArtifactLocation(uri(file))).
					WithRegion(sarif.NewRegion().WithStartLine(at)))}).
			WithPartialFingerprints(map[string]string{"identity/v1": f.Identity})
		run.AddResult(res)
	}
	doc := sarif.NewReport()
	doc.AddRun(run)
	text, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// ruleID is a title as the name of a rule.
func ruleID(title string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(title), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9')
	}), "-")
}

// uri is a file name as a reference: what is below the working folder is told from there.
func uri(name string) string {
	if dir, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(dir, name); err == nil && filepath.IsLocal(rel) {
			name = rel
		}
	}
	b := &strings.Builder{}
	for _, c := range []byte(filepath.ToSlash(name)) {
		if strings.IndexByte("/._-~", c) >= 0 || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' ||
			c >= '0' && c <= '9' {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(b, "%%%02X", c)
	}
	return b.String()
}

// placeLine is the line of a place, "file:line"; 1 when there is none.
func placeLine(place, file string) int {
	i, n := strings.LastIndexByte(place, ':'), 0
	if i < 0 || filepath.Base(place[:i]) != filepath.Base(file) {
		return 1 // the place is in the file that it was found with
	}
	if _, err := fmt.Sscanf(place[i+1:], "%d", &n); err != nil {
		return 1
	}
	return max(n, 1)
}

// Markdown writes tables of what was found and what ran.
func Markdown(w io.Writer, r *Run) error {
	b := &strings.Builder{}
	fresh := r.fresh()
	fmt.Fprintf(b, "# allocfuzz %s: %d found, %d known\n\n", r.Command, len(fresh),
		len(r.Findings)-len(fresh))
	if len(fresh) > 0 {
		b.WriteString("| finding | program | to see it again |\n|---|---|---|\n")
	}
	for i := range fresh {
		f := &fresh[i]
		lines := ""
		if text, err := os.ReadFile(smallest(f)); err == nil {
			if p, err := prog.Parse(f.File, bytes.NewReader(text)); err == nil {
				lines = fmt.Sprintf(", %d lines", len(p.Lines))
			}
		}
		fmt.Fprintf(b, "| %s | %s%s | %s |\n", cell(f.Identity),
			code(filepath.Base(smallest(f))), lines, code(f.Command))
	}
	if len(r.Targets) > 0 {
		b.WriteString("\n| target | execs | execs/s | new | corpus |\n|---|---|---|---|---|\n")
	}
	for _, t := range r.Targets {
		fmt.Fprintf(b, "| %s | %d | %.0f | %d | %d |\n", cell(t.Name), t.Execs, t.Speed(), t.New,
			t.Corpus)
	}
	if len(r.Subjects) > 0 {
		b.WriteString("\n| subject | programs | operations | unsupported |\n|---|---|---|---|\n")
	}
	for _, s := range r.Subjects {
		fmt.Fprintf(b, "| %s | %d | %d | %.1f %% |\n", cell(s.Name), s.Programs, s.Ops,
			100*s.Unsupported)
	}
	for _, p := range r.Problems {
		fmt.Fprintf(b, "\n* could not be read: %s\n", cell(p))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// smallest is the smallest program of a finding.
func smallest(f *engine.Finding) string {
	if f.Small != "" {
		return f.Small
	}
	return f.File
}

// cell is a text in a table of Markdown, in which nothing is markup.
func cell(s string) string {
	return strings.NewReplacer("\n", " ", "\r", " ", "\\", "\\\\", "~", "\\~", "@", "&#64;", "#",
		"\\#", "|", "\\|", "<", "&lt;", "&", "&amp;", "`", "\\`", "*",
		"\\*", "_", "\\_", "[", "\\[").Replace(s)
}

// code is a text of code in a table.
func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + strings.NewReplacer("\n", " ", "\r", " ", "`", "'", "|", "\\|").Replace(s) + "`"
}

// Annotations writes a line for each finding that GitHub Actions shows beside the program.
func Annotations(w io.Writer, r *Run) error {
	b := &strings.Builder{}
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	message := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	for _, f := range r.fresh() {
		fmt.Fprintf(b, "::error file=%s,line=%d,title=%s::%s\n",
			property.Replace(filepath.ToSlash(smallest(&f))), placeLine(f.Place, smallest(&f)),
			property.Replace(f.Identity), message.Replace(strings.TrimSpace(details(&f))))
	}
	for _, p := range r.Problems {
		fmt.Fprintf(b, "::warning title=allocfuzz::%s\n", message.Replace(p))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
