// Package search looks for the schedule of a program under which a subject misbehaves, or
// shows that within bounds there is none. It joins the explorers of oracle/explore with the
// oracle's runs: over several cores, in parts that several machines share, and from where a
// search was cut short. What is found it makes as small as it goes ([Minimise]) and draws in a
// column for each CPU ([Draw]).
package search
