package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	v1 "k8s.io/api/core/v1"
)

// volumeStore keeps the volumes in one directory:
//
//	<root>/<node>/<volume>      what a pod sees
//	<root>/<node>/<volume>.img  the XFS image mounted there, if it is sized
type volumeStore struct {
	root string
	// One operation at a time: each takes well under a second, and so growing,
	// mounting and removing the same volume never meet.
	mu sync.Mutex
}

// volume is the path of one volume, the mount point of a sized one.
type volume string

func (s *volumeStore) at(node, name string) volume {
	return volume(filepath.Join(s.root, node, name))
}

// of finds the volume of a PV. A path outside the store is refused, because
// what comes back may be deleted.
func (s *volumeStore) of(pv *v1.PersistentVolume) (volume, error) {
	if pv.Spec.Local == nil {
		return "", fmt.Errorf("volume %s is no local volume", pv.Name)
	}
	path := pv.Spec.Local.Path
	node := filepath.Base(filepath.Dir(path))
	if path != string(s.at(node, pv.Name)) {
		return "", fmt.Errorf("volume %s is at %s, which is not %s", pv.Name, path, s.at("<node>", pv.Name))
	}
	return volume(path), nil
}

// create makes the volume, or completes one that an earlier call left undone.
func (s *volumeStore) create(ctx context.Context, v volume, kind volumeKind, capacity int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.MkdirAll(string(v), 0o755); err != nil {
		return err
	}
	if kind == sized {
		if err := v.format(ctx, capacity); err != nil {
			return err
		}
		if err := v.mount(ctx); err != nil {
			return err
		}
	}
	// For the user of any pod, as the mode of mkdir is subject to the umask.
	return os.Chmod(string(v), 0o777)
}

// restore mounts a sized volume again. It reports false if there was nothing
// to do, and fs.ErrNotExist if the image is lost.
func (s *volumeStore) restore(ctx context.Context, v volume) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mounted, err := v.mounted()
	if err != nil || mounted {
		return false, err
	}
	if _, err := os.Stat(v.image()); err != nil {
		return false, err
	}
	return true, v.mount(ctx)
}

// grow makes a sized volume at least as large as the capacity, while in use.
func (s *volumeStore) grow(ctx context.Context, v volume, capacity int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return v.grow(ctx, capacity)
}

// remove deletes a volume of either kind, or what an earlier call left of it.
func (s *volumeStore) remove(ctx context.Context, v volume) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := v.unmount(ctx); err != nil {
		return err
	}
	for _, file := range []string{v.image(), v.unfinishedImage()} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.RemoveAll(string(v))
}

// contents lists the volumes that have a file or directory on disk.
func (s *volumeStore) contents() ([]volume, error) {
	found, err := fs.Glob(os.DirFS(s.root), "*/*")
	if err != nil {
		return nil, fmt.Errorf("list the volumes: %w", err)
	}
	var volumes []volume
	seen := map[volume]bool{}
	for _, path := range found {
		path = strings.TrimSuffix(strings.TrimSuffix(path, unfinishedSuffix), imageSuffix)
		v := volume(filepath.Join(s.root, path))
		if !seen[v] {
			seen[v] = true
			volumes = append(volumes, v)
		}
	}
	return volumes, nil
}

// mounted compares devices: a file system mounted at the path is never that
// of the directory above it.
func (v volume) mounted() (bool, error) {
	var here, above syscall.Stat_t
	err := syscall.Lstat(string(v), &here)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = syscall.Lstat(filepath.Dir(string(v)), &above)
	}
	if err != nil {
		return false, fmt.Errorf("is %s mounted: %w", v, err)
	}
	return here.Dev != above.Dev, nil
}
