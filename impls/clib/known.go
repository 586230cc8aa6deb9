package clib

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// A Known is a library that is tried by name.
type Known struct {
	Name    string   // of the subject
	About   string   // one clause
	Files   []string // patterns of its file's name
	Package string   // Debian's, where the file comes from
}

// known are the libraries that have a name of their own, in the order in which they are
// listed.
var known = []Known{
	{"c-glibc", "the malloc of the GNU C library", []string{"libc.so.6"}, "libc6"},
	{"c-jemalloc", "jemalloc", []string{"libjemalloc.so.2"}, "libjemalloc2"},
	{"c-mimalloc", "mimalloc", []string{"libmimalloc.so.2", "libmimalloc.so.3",
		"libmimalloc.so"}, "libmimalloc2.0"},
	{"c-tcmalloc", "gperftools' tcmalloc, the minimal one",
		[]string{"libtcmalloc_minimal.so.4"}, "libtcmalloc-minimal4"},
	{"c-tcmalloc-debug", "gperftools' tcmalloc, the debugging one",
		[]string{"libtcmalloc_minimal_debug.so.4", "libtcmalloc_debug.so.4"},
		"libgoogle-perftools4"},
	{"c-tbbmalloc", "the scalable allocator of oneTBB", []string{"libtbbmalloc.so.2"},
		"libtbbmalloc2"},
	{"c-scudo", "LLVM's scudo, standalone", []string{"libclang_rt.scudo_standalone-*.so",
		"libclang_rt.scudo_standalone.so"}, "libclang-rt-14-dev"},
}

// Libraries are the known ones.
func Libraries() []Known { return slices.Clone(known) }

// libraryDirs are where libraries lie, the system's first.
func libraryDirs() []string {
	triplet := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
	dirs := []string{"/lib/" + triplet[runtime.GOARCH], "/usr/lib/" + triplet[runtime.GOARCH],
		"/lib64", "/usr/lib64", "/usr/local/lib", "/usr/lib", "/lib",
		"/usr/lib/llvm-*/lib/clang/*/lib/linux"}
	if cache, err := CacheDir(); err == nil {
		for _, d := range dirs[:2] {
			dirs = append(dirs, filepath.Join(cache, "*", d))
		}
		dirs = append(dirs, filepath.Join(cache, "*", "usr/lib"),
			filepath.Join(cache, "*", "/usr/lib/llvm-*/lib/clang/*/lib/linux"))
	}
	return dirs
}

// CacheDir is where packages are unpacked that are fetched to be tried: one folder each.
func CacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "allocfuzz", "libraries"), nil
}

// Find is the file of a known library, "" where it is not installed.
func (k *Known) Find() string {
	for _, dir := range libraryDirs() {
		for _, file := range k.Files {
			if found := newest(filepath.Join(dir, file)); found != "" {
				return found
			}
		}
	}
	return ""
}

// newest is the last of the files of a pattern that are for this processor.
func newest(pattern string) string {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return ""
	}
	slices.Sort(found)
	for _, f := range slices.Backward(found) {
		if !strings.Contains(f, "scudo") || strings.Contains(f, arch()) {
			return f
		}
	}
	return ""
}

// inDirs is where a library of that very name lies, "" for nowhere.
func inDirs(name string) string {
	k := Known{Files: []string{name}}
	return k.Find()
}

// arch is how LLVM calls this processor.
func arch() string {
	return map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
}

// knownAs is the name of the known library that a file is, "" for none.
func knownAs(file string) string {
	base := filepath.Base(file)
	for i := range known {
		for _, pattern := range known[i].Files {
			if ok, _ := filepath.Match(pattern, base); ok {
				return known[i].Name
			}
			if stem := strings.TrimSuffix(pattern, "*.so"); strings.HasPrefix(base, stem+".") {
				return known[i].Name // a version more
			}
		}
	}
	return ""
}
