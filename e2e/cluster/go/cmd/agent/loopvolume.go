package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// A sized volume is an XFS image mounted through a loop device: a write beyond
// its size fails with ENOSPC as on a real disk, and XFS grows while mounted
// without the capability that resize2fs asks for.

const (
	mebibyte = 1 << 20

	// logBytes is the smallest journal mkfs.xfs makes. The image has it on top
	// of the claim, so that a claim of 300Mi holds nearly 300 MiB of files.
	logBytes = 64 * mebibyte

	imageSuffix      = ".img"
	unfinishedSuffix = ".new"
)

func (v volume) image() string           { return string(v) + imageSuffix }
func (v volume) unfinishedImage() string { return v.image() + unfinishedSuffix }

// imageBytes is the size of the image for a capacity, in whole mebibytes: a
// loop device ignores a rest smaller than its blocks.
func imageBytes(capacity int64) int64 {
	return (capacity+mebibyte-1)/mebibyte*mebibyte + logBytes
}

// format makes the image. It gets its name only when complete, so an image is
// never a half-made file system.
func (v volume) format(ctx context.Context, capacity int64) error {
	if _, err := os.Stat(v.image()); err == nil {
		return nil
	}
	unfinished := v.unfinishedImage()
	if err := makeSparse(unfinished, imageBytes(capacity)); err != nil {
		return fmt.Errorf("make the image: %w", err)
	}
	// Shared extents reserve space that no test needs.
	if _, err := command(ctx, "", "mkfs.xfs", "-q", "-m", "reflink=0", "-l", fmt.Sprintf("size=%d", logBytes), unfinished); err != nil {
		return fmt.Errorf("make the file system: %w", err)
	}
	return os.Rename(unfinished, v.image())
}

// makeSparse starts from an empty file: mkfs.xfs clears the remains of an
// older file system at its old places, which can lengthen the file.
func makeSparse(path string, size int64) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Truncate(size), file.Close())
}

// mount gives space of deleted files back to the host (discard), for images
// are sparse and many.
func (v volume) mount(ctx context.Context) error {
	mounted, err := v.mounted()
	if err != nil || mounted {
		return err
	}
	if err := os.MkdirAll(string(v), 0o755); err != nil {
		return fmt.Errorf("make the mount point: %w", err)
	}
	_, err = command(ctx, "", "mount", "-t", "xfs", "-o", "loop,discard", v.image(), string(v))
	return err
}

// unmount also frees the loop device: the kernel does so by itself only when
// the file system is mounted nowhere else.
func (v volume) unmount(ctx context.Context) error {
	mounted, err := v.mounted()
	if err != nil {
		return err
	}
	if mounted {
		if _, err := command(ctx, "", "umount", string(v)); err != nil {
			return err
		}
	}
	devices, err := v.loopDevices(ctx)
	if err != nil {
		return err
	}
	for _, device := range devices {
		if _, err := command(ctx, "", "losetup", "--detach", device); err != nil {
			return err
		}
	}
	return nil
}

// grow looks at every step anew: it may be the second try of a growth that
// stopped anywhere.
func (v volume) grow(ctx context.Context, capacity int64) error {
	if err := lengthen(v.image(), imageBytes(capacity)); err != nil {
		return fmt.Errorf("lengthen the image: %w", err)
	}
	if err := v.mount(ctx); err != nil {
		return err
	}
	devices, err := v.loopDevices(ctx)
	if err != nil {
		return err
	}
	for _, device := range devices {
		if _, err := command(ctx, "", "losetup", "--set-capacity", device); err != nil {
			return err
		}
	}
	_, err = command(ctx, "", "xfs_growfs", "-d", string(v))
	return err
}

// lengthen never shortens: that would cut the file system off.
func lengthen(path string, size int64) error {
	info, err := os.Stat(path)
	if err != nil || info.Size() >= size {
		return err
	}
	return os.Truncate(path, size)
}

func (v volume) loopDevices(ctx context.Context) ([]string, error) {
	if _, err := os.Stat(v.image()); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	output, err := command(ctx, "", "losetup", "--noheadings", "--output", "NAME", "--associated", v.image())
	return strings.Fields(output), err
}
