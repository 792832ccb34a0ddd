package main

import (
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

func claimOf(size string) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}},
		},
	}
}

func optionsOf(kind volumeKind, size string) controller.ProvisionOptions {
	return controller.ProvisionOptions{
		StorageClass: &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "local-sized"},
			Parameters: map[string]string{kindParameter: string(kind)},
		},
		PVName:           "pvc-1",
		PVC:              claimOf(size),
		SelectedNodeName: "node-a",
	}
}

func TestAcceptClaim(t *testing.T) {
	cases := []struct {
		name    string
		kind    volumeKind
		size    string
		change  func(*controller.ProvisionOptions)
		refusal []string // what the error says; none means accepted
	}{
		{name: "directory of any size", kind: directory, size: "1Mi"},
		{name: "sized at the minimum", kind: sized, size: "300Mi"},
		{name: "sized in other units", kind: sized, size: "1G"},
		{
			name: "sized just too small", kind: sized, size: "314572799",
			refusal: []string{"shop/data", "314572799", "at least 300Mi", "ask for 300Mi or more"},
		},
		{
			name: "sized too small", kind: sized, size: "100Mi",
			refusal: []string{"shop/data asks for 100Mi", "local-sized", "at least 300Mi", "class of kind directory"},
		},
		{
			name: "unknown kind", kind: "cloud", size: "1Gi",
			refusal: []string{"local-sized", `"cloud"`, "directory or sized"},
		},
		{
			name: "no node", kind: directory, size: "1Gi",
			change:  func(o *controller.ProvisionOptions) { o.SelectedNodeName = "" },
			refusal: []string{"shop/data", "WaitForFirstConsumer"},
		},
		{
			name: "selector", kind: directory, size: "1Gi",
			change:  func(o *controller.ProvisionOptions) { o.PVC.Spec.Selector = &metav1.LabelSelector{} },
			refusal: []string{"shop/data", "selector"},
		},
		{
			name: "data source", kind: sized, size: "1Gi",
			change: func(o *controller.ProvisionOptions) {
				o.PVC.Spec.DataSource = &v1.TypedLocalObjectReference{Kind: "VolumeSnapshot", Name: "yesterday"}
			},
			refusal: []string{"shop/data", "data source"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			options := optionsOf(c.kind, c.size)
			if c.change != nil {
				c.change(&options)
			}
			kind, err := acceptClaim(options)
			if c.refusal == nil {
				if err != nil || kind != c.kind {
					t.Fatalf("got kind %q and error %v, want %q", kind, err, c.kind)
				}
				return
			}
			if err == nil {
				t.Fatalf("accepted, want an error with %q", c.refusal)
			}
			for _, part := range c.refusal {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
		})
	}
}

func TestPersistentVolume(t *testing.T) {
	options := optionsOf(sized, "1Gi")
	retain := v1.PersistentVolumeReclaimRetain
	options.StorageClass.ReclaimPolicy = &retain
	pv := persistentVolume(options, "/volumes/node-a/pvc-1", sized)

	want := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "pvc-1",
			Annotations: map[string]string{"local.chiplog.dev/kind": "sized"},
		},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
			AccessModes:                   []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Capacity:                      v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource:        v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/volumes/node-a/pvc-1"}},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: v1.NodeSelectorOpIn, Values: []string{"node-a"}}},
			}}}},
		},
	}
	if !equality.Semantic.DeepEqual(pv, want) {
		t.Errorf("got %+v\nwant %+v", pv, want)
	}

	options.StorageClass.ReclaimPolicy = nil
	if policy := persistentVolume(options, "", sized).Spec.PersistentVolumeReclaimPolicy; policy != v1.PersistentVolumeReclaimDelete {
		t.Errorf("a class without reclaim policy gives %s", policy)
	}
}

func TestIsSized(t *testing.T) {
	pv := persistentVolume(optionsOf(sized, "1Gi"), "", sized)
	if isSized(pv) {
		t.Error("a volume of no provisioner is sized")
	}
	pv.Annotations["pv.kubernetes.io/provisioned-by"] = provisionerName
	if !isSized(pv) {
		t.Error("a sized volume is not")
	}
	pv.Annotations[kindAnnotation] = string(directory)
	if isSized(pv) {
		t.Error("a directory is sized")
	}
}

// Whatever is in a PV, only a volume of the store may be deleted.
func TestStoreRefusesForeignPaths(t *testing.T) {
	store := &volumeStore{root: "/volumes"}
	for path, ours := range map[string]bool{
		"/volumes/node-a/pvc-1":        true,
		"/volumes/node-a/pvc-2":        false,
		"/volumes/pvc-1":               false,
		"/volumes/node-a/deep/pvc-1":   false,
		"/volumes/../pvc-1":            false,
		"/volumes/node-a/../pvc-1":     false,
		"/elsewhere/node-a/pvc-1":      false,
		"/volumes/node-a/pvc-1/":       false,
		"volumes/node-a/pvc-1":         false,
		"/volumes/node-a/pvc-1/../etc": false,
	} {
		pv := persistentVolume(optionsOf(directory, "1Gi"), volume(path), directory)
		if v, err := store.of(pv); (err == nil) != ours || ours && string(v) != path {
			t.Errorf("%s: got %q and error %v", path, v, err)
		}
	}
	if _, err := store.of(&v1.PersistentVolume{}); err == nil {
		t.Error("a volume without path is accepted")
	}
}

func TestDirectoryVolume(t *testing.T) {
	ctx := t.Context()
	store := &volumeStore{root: t.TempDir()}
	v := store.at("node-a", "pvc-1")
	for range 2 {
		if err := store.create(ctx, v, directory, 1); err != nil {
			t.Fatal(err)
		}
	}
	requireMode(t, v)
	found, err := store.contents()
	if err != nil || len(found) != 1 || found[0] != v {
		t.Errorf("contents are %q and error %v, want %q", found, err, v)
	}
	for range 2 {
		if err := store.remove(ctx, v); err != nil {
			t.Fatal(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(store.root, "*", "*")); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}
