package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

const (
	// reloadPause collects the changes of a rollout into few reloads.
	reloadPause = 200 * time.Millisecond
	// reloadRetry is the pause after a failed reload.
	reloadRetry = 5 * time.Second
	// removeTimeout bounds the clean-up of an agent that is told to stop.
	removeTimeout = 5 * time.Second
)

// policyEngine keeps one nft table equal to what compileRuleset makes of the
// cluster, because the bridge plugin enforces no policies.
type policyEngine struct {
	table      string
	policies   networkinglisters.NetworkPolicyLister
	pods       corelisters.PodLister
	namespaces corelisters.NamespaceLister
	// changed holds at most one token: any number of changes since the last
	// load are one reason to load again.
	changed chan struct{}
	loaded  string
}

func newPolicyEngine(table string, factory informers.SharedInformerFactory) *policyEngine {
	policies, pods, namespaces := factory.Networking().V1().NetworkPolicies(), factory.Core().V1().Pods(), factory.Core().V1().Namespaces()
	e := &policyEngine{
		table:      table,
		policies:   policies.Lister(),
		pods:       pods.Lister(),
		namespaces: namespaces.Lister(),
		changed:    make(chan struct{}, 1),
	}
	for _, informer := range []cache.SharedIndexInformer{policies.Informer(), pods.Informer(), namespaces.Informer()} {
		// The error is that of an informer already stopped.
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { e.mark() },
			UpdateFunc: func(any, any) { e.mark() },
			DeleteFunc: func(any) { e.mark() },
		})
	}
	return e
}

func (e *policyEngine) mark() {
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// run loads at the first change at once and at the following ones together.
func (e *policyEngine) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.changed:
		}
		pause := reloadPause
		if err := e.load(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "network policies are not up to date, will retry", "after", reloadRetry)
			pause = reloadRetry
			e.mark()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// load replaces the whole table, unless it would be the same again: most
// changes of pods do not concern their network.
func (e *policyEngine) load(ctx context.Context) error {
	policies, err := e.policies.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list network policies: %w", err)
	}
	pods, err := e.pods.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	namespaces, err := e.namespaces.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	chains := compileRuleset(policies, pods, namespaces)
	if chains == e.loaded {
		return nil
	}
	if _, err := command(ctx, replaceTable(e.table, chains), "nft", "-f", "-"); err != nil {
		return fmt.Errorf("load the network policies: %w", err)
	}
	e.loaded = chains
	klog.InfoS("loaded network policies", "policies", len(policies), "isolations", strings.Count(chains, ": jump "))
	return nil
}

// remove lifts every policy: nothing would keep the table up to date any more.
func (e *policyEngine) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	if _, err := command(ctx, dropTable(e.table), "nft", "-f", "-"); err != nil {
		klog.ErrorS(err, "network policies are still loaded", "table", e.table)
	}
}

// replaceTable is one transaction: no packet sees a table half loaded.
func replaceTable(table, chains string) string {
	return dropTable(table) + fmt.Sprintf("table ip %s {\n%s}\n", table, chains)
}

// dropTable first makes the table, so that dropping it cannot fail.
func dropTable(table string) string {
	return fmt.Sprintf("table ip %s\ndelete table ip %s\n", table, table)
}
