package machine

import "math/bits"

// Kind is the kind of a point. The names are public: schedules name points by
// kind and field.
type Kind uint8

// The kinds of points, in the order that programs encode them.
const (
	KLoad Kind = iota
	KStore
	KCmpxchg
	KMemLoad
	KMemStore
	KLock
	KUnlock
	KIRQSave
	KIRQRestore
	KPreemptDisable
	KPreemptEnable
	KPageAlloc
	KBarrier
	KCall
	KEnd
	KWait
	nKinds
)

var kindNames = [nKinds]string{
	"load", "store", "cmpxchg", "memload", "memstore", "lock", "unlock", "irqsave", "irqrestore",
	"preempt_disable", "preempt_enable", "pagealloc", "barrier", "call", "end", "wait",
}

// String gives the spelling of programs.
func (k Kind) String() string { return nameOf(kindNames[:], int(k)) }

// Class says who may touch a shared field, and so which accesses are points.
type Class uint8

// The classes of shared fields.
const (
	ClassGuarded Class = iota // only with its guard held; checked, and no point
	ClassAtomic               // by anybody, one access at a time; a point
	ClassRacy                 // as atomic, and the value may be out of date: has a reason
	ClassPerCPU               // as atomic, but written by its own CPU only
	ClassPlain                // a point, and two accesses must be in an order; see PlainWord
)

var classNames = [...]string{"guarded", "atomic", "racy", "per-CPU", "plain"}

// String names the class.
func (c Class) String() string { return nameOf(classNames[:], int(c)) }

// A Field is a shared field of a kind of object: what its name is and how it may
// be touched. Declare it once as a package variable, in the strategy it belongs
// to; a field has no instance. A machine knows the fields that were declared before it
// was made.
type Field struct {
	Object string // kind of object: cpu_slab, slab, node, zone
	Member string
	Class  Class
	Reason string // why a racy field may be racy
	name   string
	id     uint32
	row    int // of the counts of its points
	hash   uint64
}

// fields holds every declared field in order of declaration. It only grows while
// package variables are initialised and is read-only afterwards.
var fields []*Field

// Few guarded fields have points, in memory only: their rows begin at guardedRows, behind
// those of all others, of which there are rows.
const guardedRows = 1024

var rows int

func declare(object, member string, class Class, reason string) *Field {
	f := &Field{Object: object, Member: member, Class: class, Reason: reason}
	f.name = member
	if object != "" {
		f.name = object + "." + member
	}
	f.id = uint32(len(fields))
	if f.row = guardedRows + len(fields) - rows; class != ClassGuarded {
		f.row = rows
		rows++
	}
	if rows > guardedRows {
		panic("allocfuzz: more fields with points than guardedRows allows")
	}
	f.hash = hashString(f.Name())
	fields = append(fields, f)
	return f
}

// Guarded declares a field that may only be touched with its guard held.
func Guarded(object, member string) *Field { return declare(object, member, ClassGuarded, "") }

// Atomic declares a field that anybody may touch, one access at a time.
func Atomic(object, member string) *Field { return declare(object, member, ClassAtomic, "") }

// PerCPU declares a field of which each CPU has its own that only it may write.
func PerCPU(object, member string) *Field { return declare(object, member, ClassPerCPU, "") }

// Plain declares a field that has no protection of its own: whoever touches it must be ordered
// to all others who do by something else, or it is a data race.
func Plain(object, member string) *Field { return declare(object, member, ClassPlain, "") }

// Racy declares a field whose readers accept a value that is out of date; reason
// says why that is right.
func Racy(object, member, reason string) *Field {
	if reason == "" {
		panic("allocfuzz: field " + object + "." + member + " is declared racy without a reason")
	}
	return declare(object, member, ClassRacy, reason)
}

// Fields returns every declared field in order of declaration.
func Fields() []*Field { return fields }

// Name is the public name: object.member.
func (f *Field) Name() string { return f.name }

func (f *Field) want(ok bool, what string) {
	if !ok {
		panic("allocfuzz: " + f.name + " is declared " + f.Class.String() + ": " + what)
	}
}

// none is the field of points that touch no field.
var none = declare("", "-", ClassAtomic, "")

const (
	hashSeed  = 14695981039346656037
	hashPrime = 0x9e3779b97f4a7c15
)

// mix adds v to the hash h. The rotation keeps high bits from staying among
// themselves, where two differences could cancel.
func mix(h, v uint64) uint64 { return bits.RotateLeft64(h^v, 29) * hashPrime }

func hashString(s string) uint64 {
	h := uint64(hashSeed)
	for i := 0; i < len(s); i++ {
		h = mix(h, uint64(s[i]))
	}
	return h
}
