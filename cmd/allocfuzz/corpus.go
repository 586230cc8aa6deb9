package main

import (
	"context"

	"allocfuzz/corpus"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/impls"
	"allocfuzz/oracle"
)

// corpus replays the committed programs: each on the subjects of the run, and,
// when nobody named subjects, on those for which it has a schedule. A bug that one of them
// expects of a subject is known in all.
func (s *session) corpus(ctx context.Context) {
	r := engine.NewReplayer(oracle.Options{})
	defer r.Close()
	files, expected := 0, engine.Expected()
	for file := range corpus.All() {
		if ctx.Err() != nil {
			return
		}
		files++
		if err := s.committed(ctx, r, file, expected); err != nil && ctx.Err() == nil {
			s.app.fail(err)
		}
	}
	s.app.sayf("replayed %d committed programs", files)
}

// committed replays one committed program.
func (s *session) committed(ctx context.Context, r *engine.Replayer, file corpus.File,
	expected engine.Expectations) error {
	p, err := file.Program()
	if err != nil {
		return err
	}
	subjects := append([]*impls.Variant(nil), s.subjects...)
	if len(s.flags.pick.names) == 0 {
		subjects = unique(append(subjects, engine.Owners(p)...))
	}
	list, err := r.Program(ctx, p, subjects)
	if err != nil {
		return err
	}
	for i := range list {
		if err := s.replayed(&list[i], expected); err != nil {
			return err
		}
	}
	return nil
}

// replayed takes in what one program showed on one subject, and saves what is not
// known.
func (s *session) replayed(r *engine.Replay, expected engine.Expectations) error {
	v := r.Verdict.Subject
	if _, ok := s.tally[v.Name]; ok {
		s.tally.Add(v.Name, r.Counts())
	}
	if r.Err != nil {
		return r.Err
	}
	for _, f := range r.Findings {
		expected.Mark(&f)
		if !f.Known {
			s.app.found()
		}
		if !f.Known && f.Title != engine.Missing {
			file, err := (&fuzz.Failure{Report: r.Report, Variant: v,
				Reference: r.Against}).Save(s.flags.out)
			if err != nil {
				return fileError(file, err)
			}
			f.File, f.Command = file, r.Report.Command
		}
		s.app.doc.Findings = append(s.app.doc.Findings, f)
	}
	return nil
}
