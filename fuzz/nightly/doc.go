// Package nightly is a night's work: it shares a budget of time between the fuzz targets and the
// explorers of schedules, gives more to those that still find something new, and turns what they
// meet into regressions.
//
// What a night knows is in one folder: a state that is replaced as a whole after each step, the
// fuzzer's corpora, and the findings as the targets write them. A process that is killed at any
// moment loses the slice in hand and nothing else: the next one goes on with the state, takes in
// the inputs that are on disk, and files the findings that are not filed yet. Every step that
// changes something outside of that folder can be done twice: a regression of the same text is not
// written again, a commit that changes nothing is not made.
//
// Night is the order of steps, and knows none of them; steps are carried out by a Steps, which is
// the real one of New or a fake one of tests.
package nightly
