//go:build linux

package clib

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// resident is how many bytes of memory a process has, 0 when nobody knows.
func resident(pid int) uint64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}

// loadedFile is the file that lies at an address of this process, "" when there is none.
func loadedFile(at uintptr) string {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return ""
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		fields := strings.Fields(in.Text())
		from, to, ok := strings.Cut(fields[0], "-")
		if !ok || len(fields) < 6 {
			continue
		}
		low, err := strconv.ParseUint(from, 16, 64)
		high, e := strconv.ParseUint(to, 16, 64)
		if err == nil && e == nil && uint64(at) >= low && uint64(at) < high {
			return strings.Join(fields[5:], " ")
		}
	}
	return ""
}
