//go:build dpb_system

package dpb

// #cgo pkg-config: dpb
import "C"
