//go:build linux && amd64 && !dpb_system

// Package lib links libdpb.a, which `make go` puts beside this file.
package lib

/*
#cgo CFLAGS: -I${SRCDIR}
#cgo LDFLAGS: ${SRCDIR}/libdpb.a -lpthread -lm -ldl
#if __has_include(<libdpb.a>)
#include <libdpb.h> // contains the library's hash, so that go rebuilds the package if the library changes
#else
#error "no libdpb.a for linux/amd64 in this module: install libdpb and go build -tags dpb_system (bindings/go/README.md)"
#endif
*/
import "C"
