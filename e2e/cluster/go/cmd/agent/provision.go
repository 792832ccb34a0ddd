package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

const (
	provisionerName = "chiplog.dev/local"
	kindParameter   = "kind"
	// kindAnnotation keeps the kind on the volume, whose class may be gone.
	kindAnnotation = "local.chiplog.dev/kind"
)

type volumeKind string

const (
	directory volumeKind = "directory"
	sized     volumeKind = "sized"
)

// smallestSized is the smallest file system mkfs.xfs makes.
var smallestSized = resource.MustParse("300Mi")

type provisioner struct {
	volumes *volumeStore
}

// newProvisionController also returns what to wait for after the end of its
// Run: the calls that were under way.
func newProvisionController(ctx context.Context, client kubernetes.Interface, factory informers.SharedInformerFactory, volumes *volumeStore) (*controller.ProvisionController, *sync.WaitGroup) {
	provisioning := controller.NewProvisionController(ctx, client, provisionerName, &provisioner{volumes},
		// There is one agent.
		controller.LeaderElection(false),
		// Who deletes the PV before the claim still gets the disk space back.
		controller.AddFinalizer(true),
		controller.ClaimsInformer(factory.Core().V1().PersistentVolumeClaims().Informer()),
		controller.VolumesInformer(factory.Core().V1().PersistentVolumes().Informer()),
		controller.ClassesInformer(factory.Storage().V1().StorageClasses().Informer()),
		// Tests wait: retry after seconds, not the default quarter of an hour,
		// and never give up.
		controller.RateLimiter(retries()),
		controller.CreateProvisionedPVLimiter(retries()),
		controller.FailedProvisionThreshold(0),
		controller.FailedDeleteThreshold(0),
	)
	calls := &sync.WaitGroup{}
	provisioning.ControllerWaitGroup(calls)
	return provisioning, calls
}

func retries() workqueue.TypedRateLimiter[string] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute)
}

// Provision makes the volume on the node the scheduler chose for the first pod.
func (p *provisioner) Provision(ctx context.Context, options controller.ProvisionOptions) (*v1.PersistentVolume, controller.ProvisioningState, error) {
	kind, err := acceptClaim(options)
	if err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	v := p.volumes.at(options.SelectedNodeName, options.PVName)
	size := requested(options.PVC)
	if err := p.volumes.create(ctx, v, kind, size.Value()); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("make volume %s for claim %s: %w", v, klog.KObj(options.PVC), err)
	}
	klog.InfoS("made volume", "claim", klog.KObj(options.PVC), "path", v, "kind", kind, "size", size.String())
	return persistentVolume(options, v, kind), controller.ProvisioningFinished, nil
}

// Delete removes what Provision made.
func (p *provisioner) Delete(ctx context.Context, pv *v1.PersistentVolume) error {
	v, err := p.volumes.of(pv)
	if err != nil {
		return err
	}
	if err := p.volumes.remove(ctx, v); err != nil {
		return fmt.Errorf("remove volume %s: %w", v, err)
	}
	klog.InfoS("removed volume", "path", v)
	return nil
}

// acceptClaim refuses what the volume would silently not be.
func acceptClaim(options controller.ProvisionOptions) (volumeKind, error) {
	claim, class := options.PVC, options.StorageClass
	kind := volumeKind(class.Parameters[kindParameter])
	if kind != directory && kind != sized {
		return "", fmt.Errorf("class %s has kind %q: set its parameter %s to %s or %s", class.Name, kind, kindParameter, directory, sized)
	}
	if options.SelectedNodeName == "" {
		return "", fmt.Errorf("claim %s has no node yet: class %s needs volumeBindingMode WaitForFirstConsumer", klog.KObj(claim), class.Name)
	}
	if claim.Spec.Selector != nil {
		return "", fmt.Errorf("claim %s has a selector: remove it, %s makes a new volume for each claim", klog.KObj(claim), provisionerName)
	}
	if claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil {
		return "", fmt.Errorf("claim %s has a data source: remove it, %s makes empty volumes only", klog.KObj(claim), provisionerName)
	}
	if kind == sized {
		return kind, refuseTooSmall(claim, class.Name)
	}
	return kind, nil
}

func refuseTooSmall(claim *v1.PersistentVolumeClaim, class string) error {
	size := requested(claim)
	if size.Cmp(smallestSized) >= 0 {
		return nil
	}
	return fmt.Errorf("claim %s asks for %s, but a volume of class %s is an XFS file system and has at least %s: ask for %s or more, or use a class of kind %s",
		klog.KObj(claim), size.String(), class, smallestSized.String(), smallestSized.String(), directory)
}

func requested(claim *v1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[v1.ResourceStorage]
}

// persistentVolume is of type local rather than hostPath: the kubelet then
// applies fsGroup, and the scheduler keeps the pods on the node.
func persistentVolume(options controller.ProvisionOptions, v volume, kind volumeKind) *v1.PersistentVolume {
	reclaim := v1.PersistentVolumeReclaimDelete
	if options.StorageClass.ReclaimPolicy != nil {
		reclaim = *options.StorageClass.ReclaimPolicy
	}
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        options.PVName,
			Annotations: map[string]string{kindAnnotation: string(kind)},
		},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: reclaim,
			AccessModes:                   options.PVC.Spec.AccessModes,
			VolumeMode:                    options.PVC.Spec.VolumeMode,
			MountOptions:                  options.StorageClass.MountOptions,
			Capacity:                      v1.ResourceList{v1.ResourceStorage: requested(options.PVC)},
			PersistentVolumeSource: v1.PersistentVolumeSource{
				Local: &v1.LocalVolumeSource{Path: string(v)},
			},
			NodeAffinity: onNode(options.SelectedNodeName),
		},
	}
}

func onNode(node string) *v1.VolumeNodeAffinity {
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{
				Key:      v1.LabelHostname,
				Operator: v1.NodeSelectorOpIn,
				Values:   []string{node},
			}},
		}},
	}}
}

// isSized tells whether the PV is one of ours with an image to mount and grow.
func isSized(pv *v1.PersistentVolume) bool {
	return pv.Annotations["pv.kubernetes.io/provisioned-by"] == provisionerName &&
		pv.Annotations[kindAnnotation] == string(sized)
}
