#!/bin/bash -eu
# Copies the programs below one folder to another. What is there stays: a program of the same name
# gets a number behind it, and one with the same contents is there already.
#
#	.github/gather.sh FROM TO
find "$1" -type f -name '*.prog' | LC_ALL=C sort | while IFS= read -r file; do
	name=$(basename "$file" .prog)
	to=$2/$name.prog
	n=2
	while [ -e "$to" ] && ! cmp -s -- "$file" "$to"; do
		to=$2/$name-$n.prog
		n=$((n + 1))
	done
	cp -- "$file" "$to"
done
