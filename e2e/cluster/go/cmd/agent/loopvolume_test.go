package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestImageBytes(t *testing.T) {
	for capacity, want := range map[int64]int64{
		300 << 20:       364 << 20,
		300<<20 - 1:     364 << 20,
		300<<20 + 1:     365 << 20,
		1 << 30:         1088 << 20,
		1_000_000_000:   (954 + 64) << 20,
		5 << 40:         5<<40 + 64<<20,
		5<<40 + 1<<20/2: 5<<40 + 65<<20,
	} {
		if got := imageBytes(capacity); got != want {
			t.Errorf("capacity %d: got %d, want %d", capacity, got, want)
		}
	}
}

// The life of a sized volume on a real file system, each step done twice as
// after a crash.
func TestSizedVolume(t *testing.T) {
	store := storeForMounts(t)
	ctx := t.Context()
	v := store.at("node-a", "pvc-1")
	t.Cleanup(func() { _ = store.remove(ctx, v) })

	// What a crash in the middle of mkfs.xfs leaves.
	if err := os.MkdirAll(filepath.Dir(string(v)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(v.unfinishedImage(), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	twice(t, "create", func() error { return store.create(ctx, v, sized, 300<<20) })
	requireMode(t, v)
	requireFree(t, v, 300<<20)
	file := filepath.Join(string(v), "file")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := reserve(filepath.Join(string(v), "big"), 300<<20); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a file as large as the volume: got %v, want ENOSPC", err)
	}

	twice(t, "grow", func() error { return store.grow(ctx, v, 500<<20) })
	requireFree(t, v, 500<<20)
	twice(t, "grow to less", func() error { return store.grow(ctx, v, 400<<20) })
	requireFree(t, v, 500<<20)

	// What stopping the whole cluster leaves.
	if _, err := command(ctx, "", "umount", string(v)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if mounted, err := store.restore(ctx, v); err != nil || mounted != want {
			t.Errorf("restore: mounted %t and error %v, want %t", mounted, err, want)
		}
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "kept" {
		t.Errorf("after restore the file has %q and error %v", content, err)
	}

	devices, err := v.loopDevices(ctx)
	if err != nil || len(devices) != 1 {
		t.Errorf("loop devices are %q and error %v, want one", devices, err)
	}
	twice(t, "remove", func() error { return store.remove(ctx, v) })
	if left, _ := filepath.Glob(filepath.Join(store.root, "*", "*")); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
	if _, err := store.restore(ctx, v); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("restore of a removed volume: %v", err)
	}
}

// A loop device that nothing is mounted from any more is freed all the same.
func TestRemoveFreesLoopDevice(t *testing.T) {
	store := storeForMounts(t)
	ctx := t.Context()
	v := store.at("node-a", "pvc-1")
	if err := os.MkdirAll(string(v), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := makeSparse(v.image(), 1<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := command(ctx, "", "losetup", "--find", v.image()); err != nil {
		t.Fatal(err)
	}
	devices, err := v.loopDevices(ctx)
	if err != nil || len(devices) != 1 {
		t.Fatalf("loop devices are %q and error %v, want one", devices, err)
	}
	if err := store.remove(ctx, v); err != nil {
		t.Fatal(err)
	}
	if _, err := command(ctx, "", "losetup", devices[0]); err == nil {
		t.Errorf("%s is still in use", devices[0])
	}
}

func storeForMounts(t *testing.T) *volumeStore {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	if err := requirePrograms(); err != nil {
		t.Skip(err)
	}
	if _, err := command(t.Context(), "", "losetup", "--find"); err != nil {
		t.Skipf("no loop devices here: %v", err)
	}
	return &volumeStore{root: t.TempDir()}
}

func twice(t *testing.T, what string, step func() error) {
	t.Helper()
	for range 2 {
		if err := step(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

func requireMode(t *testing.T, v volume) {
	t.Helper()
	info, err := os.Stat(string(v))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != fs.ModeDir|0o777 {
		t.Errorf("%s has mode %s", v, info.Mode())
	}
}

// requireFree allows for the metadata and the reserve of XFS.
func requireFree(t *testing.T, v volume, capacity uint64) {
	t.Helper()
	var stat syscall.Statfs_t
	if err := syscall.Statfs(string(v), &stat); err != nil {
		t.Fatal(err)
	}
	free := stat.Bavail * uint64(stat.Bsize)
	if free > capacity || free < capacity*9/10 {
		t.Errorf("of a capacity of %d there are %d free", capacity, free)
	}
}

func reserve(path string, size int64) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(syscall.Fallocate(int(file.Fd()), 0, 0, size), file.Close(), os.Remove(path))
}
