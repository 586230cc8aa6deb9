// Package property tests the subjects and the suite itself by properties, with gopter making the
// inputs and making the failing ones small.
//
//   - Programs is a generator of whole programs whose shrinker drops lines and makes numbers
//     smaller; Silent is the property that a subject has nothing to be found by one.
//   - Commands is the classical stateful form: single calls of an allocator beside a model, chosen
//     by the model's state. It is also the peer that the runner's speed is measured against.
//   - The round trip demands of every recorded schedule that its text replays to the same trace.
//
// The randomness of a test is one number, which it logs; -seed gives it back.
package property
