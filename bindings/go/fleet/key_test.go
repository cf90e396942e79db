package fleet

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadKey(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key")
	write := func(text string, mode os.FileMode) {
		check(os.WriteFile(name, []byte(text), 0o600))
		check(os.Chmod(name, mode))
	}
	raw := strings.Repeat("\n\x00key ab", 4)
	upper, lower := strings.Repeat("0a006B6579206162", 4), strings.Repeat("0a006b6579206162", 4)
	for _, text := range []string{raw, upper, lower + "\n", upper + "\r\n"} {
		write(text, 0o400)
		if key, err := ReadKey(name); err != nil || !bytes.Equal(key[:], []byte(raw)) {
			t.Error(key, err)
		}
	}
	digits := strings.Repeat("0", 64)
	for _, wrong := range []string{
		"", raw[:31], raw + "x", digits[:63], digits + "0", digits + "\n\n", digits + "\r\r\n", digits + "\n\r",
		digits[:63] + "g", digits + digits,
	} {
		write(wrong, 0o600)
		if _, err := ReadKey(name); err == nil || !strings.Contains(err.Error(), "no fleet key") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620} {
		write(raw, mode)
		if _, err := ReadKey(name); err == nil || !strings.Contains(err.Error(), "other users") {
			t.Error(mode, err)
		}
	}
	if _, err := ReadKey(name + "s"); !os.IsNotExist(err) {
		t.Error(err)
	}
}
