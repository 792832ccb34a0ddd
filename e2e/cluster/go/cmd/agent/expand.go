package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// expander is the external controller Kubernetes waits for when a claim of a
// volume without a CSI driver is raised. The kubelet has no part in it: for a
// local volume that is a directory its own step does nothing.
type expander struct {
	client  kubernetes.Interface
	claims  corelisters.PersistentVolumeClaimLister
	pvs     corelisters.PersistentVolumeLister
	volumes grower
	events  record.EventRecorder
	queue   workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

// grower makes the file system of a PV at least as large as the capacity.
type grower interface {
	growPV(ctx context.Context, pv *v1.PersistentVolume, capacity int64) error
}

func (s *volumeStore) growPV(ctx context.Context, pv *v1.PersistentVolume, capacity int64) error {
	v, err := s.of(pv)
	if err != nil {
		return err
	}
	return s.grow(ctx, v, capacity)
}

func newExpander(ctx context.Context, client kubernetes.Interface, factory informers.SharedInformerFactory, volumes *volumeStore) *expander {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&corev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	e := &expander{
		client:  client,
		claims:  factory.Core().V1().PersistentVolumeClaims().Lister(),
		pvs:     factory.Core().V1().PersistentVolumes().Lister(),
		volumes: volumes,
		events:  broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: provisionerName}),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](time.Second, time.Minute)),
	}
	// The error is that of an informer already stopped.
	_, _ = factory.Core().V1().PersistentVolumeClaims().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    e.enqueue,
		UpdateFunc: func(_, claim any) { e.enqueue(claim) },
	})
	return e
}

func (e *expander) enqueue(object any) {
	if claim, ok := object.(*v1.PersistentVolumeClaim); ok && claim.Status.Phase == v1.ClaimBound {
		e.queue.Add(cache.MetaObjectToName(claim))
	}
}

func (e *expander) run(ctx context.Context) {
	var worker sync.WaitGroup
	worker.Go(func() {
		for e.next(ctx) {
		}
	})
	<-ctx.Done()
	e.queue.ShutDown()
	worker.Wait()
}

func (e *expander) next(ctx context.Context) bool {
	name, stopped := e.queue.Get()
	if stopped {
		return false
	}
	defer e.queue.Done(name)
	if err := e.sync(ctx, name); err != nil {
		klog.ErrorS(err, "volume is not expanded, will retry", "claim", name)
		e.queue.AddRateLimited(name)
		return true
	}
	e.queue.Forget(name)
	return true
}

// sync compares the claim with its volume and does what is left to do, whatever
// an earlier call achieved.
func (e *expander) sync(ctx context.Context, name cache.ObjectName) error {
	claim, err := e.claims.PersistentVolumeClaims(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	pv, err := e.pvs.Get(claim.Spec.VolumeName)
	if err != nil {
		return fmt.Errorf("volume of the claim: %w", err)
	}
	if !isSized(pv) || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != claim.UID {
		return nil
	}
	capacity, err := e.expand(ctx, claim, pv)
	if err != nil {
		e.events.Eventf(claim, v1.EventTypeWarning, "VolumeResizeFailed", "volume %s: %v", pv.Name, err)
		return err
	}
	return e.publish(ctx, claim, capacity)
}

// expand grows the file system first and the PV's word about it second, so the
// PV never promises more than there is. It returns the capacity of the PV.
func (e *expander) expand(ctx context.Context, claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) (resource.Quantity, error) {
	before, wanted := pv.Spec.Capacity[v1.ResourceStorage], requested(claim)
	if wanted.Cmp(before) <= 0 {
		return before, nil
	}
	if err := e.volumes.growPV(ctx, pv, wanted.Value()); err != nil {
		return before, fmt.Errorf("grow to %s: %w", wanted.String(), err)
	}
	patch, err := json.Marshal(map[string]any{
		"spec": map[string]any{"capacity": v1.ResourceList{v1.ResourceStorage: wanted}},
	})
	if err != nil {
		return before, fmt.Errorf("patch of the capacity: %w", err)
	}
	if _, err := e.client.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return before, fmt.Errorf("set the capacity to %s: %w", wanted.String(), err)
	}
	klog.InfoS("expanded volume", "claim", klog.KObj(claim), "volume", pv.Name, "from", before.String(), "to", wanted.String())
	e.events.Eventf(claim, v1.EventTypeNormal, "VolumeResizeSuccessful", "volume %s grew from %s to %s", pv.Name, before.String(), wanted.String())
	return wanted, nil
}

// publish tells the claim's reader. An update rather than a patch: its resource
// version keeps a condition that someone set meanwhile.
func (e *expander) publish(ctx context.Context, claim *v1.PersistentVolumeClaim, capacity resource.Quantity) error {
	status, changed := expandedStatus(claim.Status, capacity)
	if !changed {
		return nil
	}
	update := claim.DeepCopy()
	update.Status = status
	_, err := e.client.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, update, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("set the claim's capacity to %s: %w", capacity.String(), err)
	}
	return nil
}

// expandedStatus is the status of a claim whose volume has the capacity and is
// not being resized, and whether that differs.
func expandedStatus(status v1.PersistentVolumeClaimStatus, capacity resource.Quantity) (v1.PersistentVolumeClaimStatus, bool) {
	expanded := *status.DeepCopy()
	published := expanded.Capacity[v1.ResourceStorage]
	raised := published.Cmp(capacity) < 0
	if raised {
		if expanded.Capacity == nil {
			expanded.Capacity = v1.ResourceList{}
		}
		expanded.Capacity[v1.ResourceStorage] = capacity
	}
	expanded.Conditions = slices.DeleteFunc(expanded.Conditions, aboutResize)
	_, underWay := expanded.AllocatedResourceStatuses[v1.ResourceStorage]
	delete(expanded.AllocatedResourceStatuses, v1.ResourceStorage)
	return expanded, raised || underWay || len(expanded.Conditions) != len(status.Conditions)
}

func aboutResize(condition v1.PersistentVolumeClaimCondition) bool {
	switch condition.Type {
	case v1.PersistentVolumeClaimResizing,
		v1.PersistentVolumeClaimFileSystemResizePending,
		v1.PersistentVolumeClaimControllerResizeError,
		v1.PersistentVolumeClaimNodeResizeError:
		return true
	}
	return false
}
