//go:build linux || darwin || freebsd

package devpg

import "syscall"

// freeBytes is what an ordinary account may still write at path.
func freeBytes(path string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return 0, err
	}
	return uint64(max(0, int64(st.Bavail))) * uint64(st.Bsize), nil
}
