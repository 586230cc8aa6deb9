// Package detect finds out what the debug checks see: which misuse is noticed, by
// which subject under which options, and when.
//
// Nothing in its table is written by hand. Every answer comes from small programs that
// were run: one misuse, and behind it, in a program each, the natural use of what was
// misused, a validation of the cache, and the end of the cache. The first report decides.
// The runs are judged like all others, so an answer that the model of the checks does
// not agree with is an error and no answer.
//
//	kinds.go    the kinds of misuse, and their programs
//	run.go      what one program shows
//	table.go    kinds × options, and subjects that answer alike
//	text.go     the table as text, with its legend
package detect
