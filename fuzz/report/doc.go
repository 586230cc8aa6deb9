// Package report shows what was found: one self-contained HTML page in which the runs are stepped
// through point by point, and the forms that other tools read (JUnit, SARIF, Markdown,
// annotations). All of them are views of one source, the JSON lines that a command leaves in its
// folder.
package report
