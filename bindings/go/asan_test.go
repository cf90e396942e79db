//go:build asan

package dpb

// Under AddressSanitizer the compiler puts some variables on the heap that otherwise are on the stack.
const underASan = true
