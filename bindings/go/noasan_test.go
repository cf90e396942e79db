//go:build !asan

package dpb

const underASan = false
