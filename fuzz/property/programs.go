package property

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/prop"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/input"
)

// Programs generates whole programs as input.Generate makes them under opt, with the schedules that
// opt lets through. A failing one is made small by Shrink. Without opt.Lines gopter's size decides
// how many lines there are, from 1 up.
func Programs(opt input.GenerateOptions) gopter.Gen {
	return func(params *gopter.GenParameters) *gopter.GenResult {
		o := opt
		if o.Lines <= 0 {
			o.Lines = max(1, params.MaxSize)
		}
		rng := rand.New(rand.NewPCG(params.NextUint64(), params.NextUint64()))
		return gopter.NewGenResult(input.Generate(rng, o), Shrink)
	}
}

// Silent is the property that no subject of s has anything to be found by a program of gen, run
// under its schedule and, where it has one context and none, compared between the subjects. A
// failure's label is the report of the finding.
func Silent(s *fuzz.Session, gen gopter.Gen) gopter.Prop {
	return prop.ForAll(func(p *prog.Program) (string, error) {
		f, err := s.Program(p)
		if f == nil || err != nil {
			return "", err
		}
		b := &strings.Builder{}
		fmt.Fprintf(b, "%s\n", f.Report.Finding.Identity())
		f.Report.Text(b)
		return b.String(), nil
	}, gen)
}
