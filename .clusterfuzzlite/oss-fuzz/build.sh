#!/bin/bash -eu
# The build is kept with the sources.
exec "$SRC/allocfuzz/.clusterfuzzlite/build.sh"
