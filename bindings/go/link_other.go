//go:build !dpb_system && !(linux && (amd64 || arm64))

package dpb

// #error "this module has no libdpb.a for this platform: install libdpb, and go build -tags dpb_system"
import "C"
