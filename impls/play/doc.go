// Package play holds what one operation means: how an impls.Op is carried out on
// an impls.Instance and written down as an impls.Event. The runner of the oracle
// and the child side of a remote subject both use it, so that there is one
// meaning only.
//
// An operation has three parts, because contexts interleave inside calls:
//
//   - Begin resolves the operands, claims what the operation uses up, and checks
//     contents that are about to go. When it is done the event of a free is
//     complete: from here on the address is the allocator's.
//   - Call is the one call of the allocator. Anything may happen inside.
//   - End binds the result, checks zeroing and prefixes, and fills the memory
//     with the operation's pattern.
//
// What an operation carries from one part to the next is in a Step, which is the
// context's own. The tables of slots are shared by all contexts. A claim takes the
// slot away from everybody else at once: of two operations that race for one slot
// the loser is skipped, so a race in a program is never blamed on a subject.
package play
