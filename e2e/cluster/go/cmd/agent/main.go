// Command agent does for the local cluster what a cloud does for a hosted one:
// it makes, grows and deletes volumes and enforces network policies.
//
// It runs as root on the host beside the control plane. Every node of the
// cluster is on that host, so one agent serves them all.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// resyncPeriod is how often every object is looked at again, whatever happened
// to it: the net under a missed retry.
const resyncPeriod = 15 * time.Minute

type settings struct {
	kubeconfig string
	volumesDir string
	nftTable   string
	listen     string
}

func main() {
	klog.InitFlags(nil)
	given, err := parseSettings()
	if err == nil {
		err = run(given)
	}
	if err != nil {
		klog.ErrorS(err, "agent failed")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
	klog.Flush()
}

func parseSettings() (settings, error) {
	var s settings
	flag.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig `file` of a cluster administrator")
	flag.StringVar(&s.volumesDir, "volumes-dir", "", "`directory` that holds the volumes")
	flag.StringVar(&s.nftTable, "nft-table", "", "`name` of the nft table for network policies; the agent owns it")
	flag.StringVar(&s.listen, "listen", "", "`address:port` that serves /readyz")
	flag.Parse()
	for _, name := range []string{"kubeconfig", "volumes-dir", "nft-table", "listen"} {
		if flag.Lookup(name).Value.String() == "" {
			return s, fmt.Errorf("flag --%s is missing", name)
		}
	}
	root, err := filepath.Abs(s.volumesDir)
	if err != nil {
		return s, fmt.Errorf("volumes directory: %w", err)
	}
	s.volumesDir = root
	return s, nil
}

func run(s settings) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := requirePrograms(); err != nil {
		return err
	}
	if err := os.MkdirAll(s.volumesDir, 0o755); err != nil {
		return fmt.Errorf("volumes directory: %w", err)
	}
	client, err := newClient(s.kubeconfig)
	if err != nil {
		return err
	}
	ready := &readiness{}
	server, err := serveReadiness(s.listen, ready)
	if err != nil {
		return err
	}
	defer server.Close()

	if err := work(ctx, s, client, ready); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	klog.InfoS("stopped")
	return nil
}

func newClient(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	// The default of 5 requests a second would hold up a test that makes
	// twenty claims at once.
	config.QPS, config.Burst = 50, 100
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return client, nil
}

func serveReadiness(address string, ready *readiness) (*http.Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for /readyz: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /readyz", ready)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			klog.ErrorS(err, "serve /readyz")
		}
	}()
	return server, nil
}

// work returns when the context ends and all that was started has stopped.
func work(ctx context.Context, s settings, client kubernetes.Interface, ready *readiness) error {
	factory := informers.NewSharedInformerFactory(client, resyncPeriod)
	volumes := &volumeStore{root: s.volumesDir}
	provisioning, provisioned := newProvisionController(ctx, client, factory, volumes)
	expansion := newExpander(ctx, client, factory, volumes)
	policies := newPolicyEngine(s.nftTable, factory)
	allPVs := factory.Core().V1().PersistentVolumes().Lister()

	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("read every %s: %w", kind, ctx.Err())
		}
	}
	// Before provisioning and expansion, so that neither meets a volume that
	// should be mounted and is not.
	ready.set("volumes are being mounted")
	if err := restoreVolumes(ctx, volumes, allPVs, ready); err != nil {
		return err
	}
	ready.set("network policies are being loaded")
	defer policies.remove()
	if err := policies.load(ctx); err != nil {
		return err
	}

	var running sync.WaitGroup
	running.Go(func() { provisioning.Run(ctx) })
	running.Go(func() { expansion.run(ctx) })
	running.Go(func() { policies.run(ctx) })
	ready.set("")
	klog.InfoS("ready", "volumes", s.volumesDir, "nftTable", s.nftTable)
	running.Wait()
	provisioned.Wait()
	return nil
}
