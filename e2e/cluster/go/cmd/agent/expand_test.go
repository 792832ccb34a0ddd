package main

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

func TestExpandedStatus(t *testing.T) {
	condition := func(t v1.PersistentVolumeClaimConditionType) v1.PersistentVolumeClaimCondition {
		return v1.PersistentVolumeClaimCondition{Type: t, Status: v1.ConditionTrue}
	}
	other := condition(v1.PersistentVolumeClaimVolumeModifyingVolume)
	cases := []struct {
		name    string
		status  v1.PersistentVolumeClaimStatus
		size    string
		changed bool
	}{
		{"up to date", v1.PersistentVolumeClaimStatus{Capacity: storage("1Gi")}, "1Gi", false},
		{"behind", v1.PersistentVolumeClaimStatus{Capacity: storage("500Mi")}, "1Gi", true},
		{"without capacity", v1.PersistentVolumeClaimStatus{}, "1Gi", true},
		{"ahead of a stale cache", v1.PersistentVolumeClaimStatus{Capacity: storage("2Gi")}, "2Gi", false},
		{"other condition", v1.PersistentVolumeClaimStatus{Capacity: storage("1Gi"), Conditions: []v1.PersistentVolumeClaimCondition{other}}, "1Gi", false},
		{"resize conditions", v1.PersistentVolumeClaimStatus{Capacity: storage("1Gi"), Conditions: []v1.PersistentVolumeClaimCondition{
			condition(v1.PersistentVolumeClaimResizing), other, condition(v1.PersistentVolumeClaimFileSystemResizePending),
			condition(v1.PersistentVolumeClaimControllerResizeError), condition(v1.PersistentVolumeClaimNodeResizeError),
		}}, "1Gi", true},
		{"resize under way", v1.PersistentVolumeClaimStatus{Capacity: storage("1Gi"), AllocatedResourceStatuses: map[v1.ResourceName]v1.ClaimResourceStatus{
			v1.ResourceStorage: v1.PersistentVolumeClaimNodeResizePending,
		}}, "1Gi", true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before := c.status.DeepCopy()
			got, changed := expandedStatus(c.status, resource.MustParse("1Gi"))
			if changed != c.changed {
				t.Errorf("changed is %t", changed)
			}
			if size := got.Capacity[v1.ResourceStorage]; size.String() != c.size {
				t.Errorf("capacity is %s, want %s", size.String(), c.size)
			}
			for _, left := range got.Conditions {
				if left.Type != other.Type {
					t.Errorf("condition %s is left", left.Type)
				}
			}
			if len(got.AllocatedResourceStatuses) > 0 {
				t.Errorf("left is %v", got.AllocatedResourceStatuses)
			}
			if len(before.Conditions) != len(c.status.Conditions) || before.Capacity.Storage().Cmp(*c.status.Capacity.Storage()) != 0 {
				t.Error("the cached object was changed")
			}
		})
	}
}

// grown notes the growths asked of it.
type grown struct {
	sizes []int64
	err   error
}

func (g *grown) growPV(_ context.Context, _ *v1.PersistentVolume, capacity int64) error {
	g.sizes = append(g.sizes, capacity)
	return g.err
}

func TestExpanderSync(t *testing.T) {
	const mib = 1 << 20
	cases := []struct {
		name                          string
		request, published, pvSize    string
		change                        func(*v1.PersistentVolume)
		growError                     error
		wantGrowths                   []int64
		wantFailure                   bool
		wantPVSize, wantClaimCapacity string
	}{
		{name: "nothing to do", request: "300Mi", published: "300Mi", pvSize: "300Mi", wantPVSize: "300Mi", wantClaimCapacity: "300Mi"},
		{name: "raised", request: "500Mi", published: "300Mi", pvSize: "300Mi", wantGrowths: []int64{500 * mib}, wantPVSize: "500Mi", wantClaimCapacity: "500Mi"},
		{name: "stopped before the claim knew", request: "500Mi", published: "300Mi", pvSize: "500Mi", wantPVSize: "500Mi", wantClaimCapacity: "500Mi"},
		{name: "does not grow", request: "500Mi", published: "300Mi", pvSize: "300Mi", growError: errors.New("disk full"), wantGrowths: []int64{500 * mib}, wantFailure: true, wantPVSize: "300Mi", wantClaimCapacity: "300Mi"},
		{
			name: "directory", request: "500Mi", published: "300Mi", pvSize: "300Mi", wantPVSize: "300Mi", wantClaimCapacity: "300Mi",
			change: func(pv *v1.PersistentVolume) { pv.Annotations[kindAnnotation] = string(directory) },
		},
		{
			name: "of another claim", request: "500Mi", published: "300Mi", pvSize: "300Mi", wantPVSize: "300Mi", wantClaimCapacity: "300Mi",
			change: func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef.UID = "2" },
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			claim, pv := boundPair(c.request, c.published, c.pvSize)
			if c.change != nil {
				c.change(pv)
			}
			client := fake.NewClientset(claim, pv)
			volumes := &grown{err: c.growError}
			e := &expander{
				client:  client,
				claims:  corelisters.NewPersistentVolumeClaimLister(indexerOf(claim)),
				pvs:     corelisters.NewPersistentVolumeLister(indexerOf(pv)),
				volumes: volumes,
				events:  record.NewFakeRecorder(1),
			}
			if err := e.sync(t.Context(), cache.MetaObjectToName(claim)); (err != nil) != c.wantFailure {
				t.Errorf("error is %v", err)
			}
			if len(volumes.sizes) != len(c.wantGrowths) || len(c.wantGrowths) > 0 && volumes.sizes[0] != c.wantGrowths[0] {
				t.Errorf("growths are %d, want %d", volumes.sizes, c.wantGrowths)
			}
			gotPV, err := client.CoreV1().PersistentVolumes().Get(t.Context(), pv.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if size := gotPV.Spec.Capacity.Storage().String(); size != c.wantPVSize {
				t.Errorf("the volume has %s, want %s", size, c.wantPVSize)
			}
			gotClaim, err := client.CoreV1().PersistentVolumeClaims(claim.Namespace).Get(t.Context(), claim.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if size := gotClaim.Status.Capacity.Storage().String(); size != c.wantClaimCapacity {
				t.Errorf("the claim has %s, want %s", size, c.wantClaimCapacity)
			}
		})
	}
}

func storage(size string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
}

func boundPair(request, published, pvSize string) (*v1.PersistentVolumeClaim, *v1.PersistentVolume) {
	claim := claimOf(request)
	claim.UID = "1"
	claim.Spec.VolumeName = "pvc-1"
	claim.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, Capacity: storage(published)}
	pv := persistentVolume(optionsOf(sized, pvSize), "/volumes/node-a/pvc-1", sized)
	pv.Annotations["pv.kubernetes.io/provisioned-by"] = provisionerName
	pv.Spec.ClaimRef = &v1.ObjectReference{UID: "1"}
	return claim, pv
}

func indexerOf(object runtime.Object) cache.Indexer {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	_ = indexer.Add(object)
	return indexer
}
