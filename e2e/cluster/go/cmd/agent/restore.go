package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
)

// restoreRetry is the pause before another try to mount what did not mount.
const restoreRetry = 5 * time.Second

// restoreVolumes mounts every sized volume again: stopping the whole cluster
// takes the mounts away and leaves the images. It returns only when all are
// mounted, because a pod started before would write into the empty directory
// beneath.
func restoreVolumes(ctx context.Context, volumes *volumeStore, lister corelisters.PersistentVolumeLister, ready *readiness) error {
	pvs, err := lister.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list persistent volumes: %w", err)
	}
	if err := reportUnknown(volumes, pvs); err != nil {
		return err
	}
	for {
		failure := mountAll(ctx, volumes, pvs)
		if failure == nil {
			return nil
		}
		ready.set(failure.Error())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(restoreRetry):
		}
	}
}

func mountAll(ctx context.Context, volumes *volumeStore, pvs []*v1.PersistentVolume) error {
	var failures []error
	for _, pv := range pvs {
		if !isSized(pv) {
			continue
		}
		if err := mountAgain(ctx, volumes, pv); err != nil {
			klog.ErrorS(err, "volume does not mount, will retry", "volume", pv.Name, "after", restoreRetry)
			failures = append(failures, fmt.Errorf("mount volume %s again: %w", pv.Name, err))
		}
	}
	return errors.Join(failures...)
}

func mountAgain(ctx context.Context, volumes *volumeStore, pv *v1.PersistentVolume) error {
	v, err := volumes.of(pv)
	if err != nil {
		// Made by an agent with another directory: not ours to mount.
		klog.ErrorS(err, "volume is left alone")
		return nil
	}
	mounted, err := volumes.restore(ctx, v)
	if errors.Is(err, fs.ErrNotExist) {
		// The disk is lost or the volume half deleted; waiting mends neither.
		klog.ErrorS(err, "volume has no image", "volume", pv.Name)
		return nil
	}
	if mounted && err == nil {
		klog.InfoS("mounted volume again", "path", v)
	}
	return err
}

// reportUnknown names what belongs to no PV. It is never deleted on a guess:
// it may be the data of a cluster whose state was lost.
func reportUnknown(volumes *volumeStore, pvs []*v1.PersistentVolume) error {
	known := map[volume]bool{}
	for _, pv := range pvs {
		if v, err := volumes.of(pv); err == nil {
			known[v] = true
		}
	}
	found, err := volumes.contents()
	if err != nil {
		return err
	}
	for _, v := range found {
		if !known[v] {
			klog.InfoS("no persistent volume has this path, it is left alone", "path", v)
		}
	}
	return nil
}
