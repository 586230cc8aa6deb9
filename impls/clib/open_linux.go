//go:build linux && (amd64 || arm64) && !nolibs

package clib

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Supported says whether libraries can be loaded in this build.
const Supported = true

// A native calls C through purego.
type native struct {
	errnoLocation uintptr
}

func (native) call(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}

func (native) posixMemalign(fn, align, size uintptr) (p uintptr, code int) {
	out := new(uintptr)
	r, _, _ := purego.SyscallN(fn, uintptr(unsafe.Pointer(out)), align, size)
	return *out, int(int32(r))
}

func (n native) errno() *int32 {
	if n.errnoLocation == 0 {
		return new(int32)
	}
	p := n.call(n.errnoLocation)
	return *(**int32)(unsafe.Pointer(&p))
}

// open loads a library into this process and finds its functions.
func open(file string) (*library, error) {
	handle, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, errors.New(strings.TrimSpace(err.Error()))
	}
	l := &library{}
	own := ownerOf(handle)
	lookup := func(name string) uintptr {
		p, err := purego.Dlsym(handle, name)
		if err != nil || !own.has(p) {
			return 0
		}
		return p
	}
	s, ok := discover(lookup)
	if !ok {
		return nil, fmt.Errorf("it has no malloc and free of its own: expected one of %s",
			expected())
	}
	l.symbols = s
	l.version = versionOf(lookup)
	l.caller = native{symbolAnywhere("__errno_location")}
	return l, nil
}

// An owner is the shared object that a handle stands for.
type owner struct {
	dladdr uintptr
	base   uintptr // 0 when it cannot be told
}

// ownerOf asks the loader where a library lies: dlsym also finds the symbols of what a
// library needs, and the malloc of the C library is not its own.
func ownerOf(handle uintptr) owner {
	o := owner{dladdr: symbolAnywhere("dladdr")}
	const linkMap = 2 // RTLD_DI_LINKMAP
	var m *struct{ base uintptr }
	dlinfo := symbolAnywhere("dlinfo")
	if dlinfo == 0 {
		return o
	}
	if r, _, _ := purego.SyscallN(dlinfo, handle, linkMap,
		uintptr(unsafe.Pointer(&m))); int32(r) == 0 && m != nil {
		o.base = m.base
	}
	return o
}

// has says whether an address lies in the object.
func (o owner) has(p uintptr) bool {
	if p == 0 || o.base == 0 || o.dladdr == 0 {
		return p != 0
	}
	var info struct{ file, base, symbol, at uintptr }
	r, _, _ := purego.SyscallN(o.dladdr, p, uintptr(unsafe.Pointer(&info)))
	return r != 0 && info.base == o.base
}

func symbolAnywhere(name string) uintptr {
	p, err := purego.Dlsym(purego.RTLD_DEFAULT, name)
	if err != nil {
		return 0
	}
	return p
}

// versionOf asks a library for its version in each of the ways in which some tell it; "" when
// it knows none.
func versionOf(lookup func(string) uintptr) string {
	if fn := lookup("mi_version"); fn != 0 {
		r, _, _ := purego.SyscallN(fn)
		n := int(int32(r))
		return fmt.Sprintf("%d.%d.%d", n/100, n/10%10, n%10)
	}
	for _, name := range []string{"gnu_get_libc_version", "tc_version"} {
		if fn := lookup(name); fn != 0 {
			r, _, _ := purego.SyscallN(fn, 0, 0, 0)
			return textAt(r)
		}
	}
	if fn := lookup("mallctl"); fn != 0 {
		var text, size = new(uintptr), new(uintptr)
		*size = unsafe.Sizeof(*text)
		name := append([]byte("version"), 0)
		r, _, _ := purego.SyscallN(fn, uintptr(unsafe.Pointer(&name[0])),
			uintptr(unsafe.Pointer(text)), uintptr(unsafe.Pointer(size)), 0, 0)
		if r == 0 {
			version, _, _ := strings.Cut(textAt(*text), "-")
			return version
		}
	}
	return ""
}

// textAt is a short string of C.
func textAt(p uintptr) string {
	const most = 64
	if p == 0 {
		return ""
	}
	var b []byte
	for i := range uintptr(most) {
		at := p + i
		c := **(**byte)(unsafe.Pointer(&at))
		if c == 0 {
			break
		}
		b = append(b, c)
	}
	return string(b)
}
