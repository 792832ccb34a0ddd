package main

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// direction is one way of traffic, with the nft names of the addresses of the
// pod a policy is about and of the peer it talks to.
type direction struct {
	policyType networkingv1.PolicyType
	chain      string
	self, peer string
}

var (
	ingress = direction{networkingv1.PolicyTypeIngress, "ingress", "daddr", "saddr"}
	egress  = direction{networkingv1.PolicyTypeEgress, "egress", "saddr", "daddr"}
)

// endpoint is a pod with an address of its own.
type endpoint struct {
	addr netip.Addr
	pod  *v1.Pod
}

// network is what the selectors of policies choose from.
type network struct {
	endpoints       []endpoint // by address
	namespaceLabels map[string]labels.Set
}

// allowance is one rule of a policy, of either direction.
type allowance struct {
	peers []networkingv1.NetworkPolicyPeer
	ports []networkingv1.NetworkPolicyPort
}

// compileRuleset turns the objects into the chains of an nft table. The same
// objects in any order give the same text.
//
// An isolated pod has a chain for the direction: it returns at what some policy
// allows and drops the rest, so a packet between two isolated pods passes only
// if both chains return.
//
// The chains hang on the forward hook, which sees what goes from pod to pod and
// between pods and the world. It does not see what the host itself sends or
// receives, that is the traffic of the node addresses (198.18.255.0/24) and of
// 127.0.0.0/8: probes of the kubelets, the API server and the DNS server. That
// is never filtered, as Kubernetes asks for a pod's own node.
func compileRuleset(policies []*networkingv1.NetworkPolicy, pods []*v1.Pod, namespaces []*v1.Namespace) string {
	n := newNetwork(pods, namespaces)
	var text strings.Builder
	var jumps []string
	// Egress first only for reading: the verdict is the same either way.
	for _, d := range []direction{egress, ingress} {
		var verdicts []string
		for _, subject := range n.endpoints {
			rules, isolated := n.podRules(d, subject, policies)
			if !isolated {
				continue
			}
			chain := d.chain + "-" + subject.addr.String()
			writeChain(&text, chain, subject.pod, rules)
			verdicts = append(verdicts, subject.addr.String()+" : jump "+chain)
		}
		if len(verdicts) > 0 {
			jumps = append(jumps, fmt.Sprintf("ip %s vmap { %s }", d.self, strings.Join(verdicts, ", ")))
		}
	}
	writeForward(&text, jumps)
	return text.String()
}

func writeChain(text *strings.Builder, chain string, pod *v1.Pod, rules []string) {
	fmt.Fprintf(text, "\tchain %s {\n\t\t# %s/%s\n", chain, pod.Namespace, pod.Name)
	for _, rule := range rules {
		fmt.Fprintf(text, "\t\t%s\n", rule)
	}
	fmt.Fprint(text, "\t\tcounter drop\n\t}\n")
}

// writeForward runs before the filter chains of iptables (priority 0): an
// accept there must not come first. At this point a service address is already
// that of a pod and a pod's address not yet that of the node.
func writeForward(text *strings.Builder, jumps []string) {
	fmt.Fprint(text, "\tchain forward {\n\t\ttype filter hook forward priority -5; policy accept;\n")
	fmt.Fprint(text, "\t\tct state established,related accept\n")
	for _, jump := range jumps {
		fmt.Fprintf(text, "\t\t%s\n", jump)
	}
	fmt.Fprint(text, "\t}\n")
}

func newNetwork(pods []*v1.Pod, namespaces []*v1.Namespace) network {
	n := network{namespaceLabels: map[string]labels.Set{}}
	for _, namespace := range namespaces {
		n.namespaceLabels[namespace.Name] = namespace.Labels
	}
	// A stopping pod's address may already belong to another pod, and an
	// address can have one verdict only: the younger pod has it.
	owners := map[netip.Addr]*v1.Pod{}
	for _, pod := range pods {
		addr, ok := ownAddress(pod)
		if !ok {
			continue
		}
		if owner := owners[addr]; owner == nil || younger(pod, owner) {
			owners[addr] = pod
		}
	}
	for addr, pod := range owners {
		n.endpoints = append(n.endpoints, endpoint{addr, pod})
	}
	slices.SortFunc(n.endpoints, func(a, b endpoint) int { return a.addr.Compare(b.addr) })
	return n
}

// ownAddress leaves out pods of the host network, whose address is the node's,
// and finished pods, whose address is free again.
func ownAddress(pod *v1.Pod) (netip.Addr, bool) {
	finished := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
	if pod.Spec.HostNetwork || finished {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(pod.Status.PodIP)
	return addr, err == nil && addr.Is4()
}

func younger(a, b *v1.Pod) bool {
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
	) > 0
}

// podRules says whether a policy isolates the pod in the direction, and what
// all such policies together let pass.
func (n network) podRules(d direction, subject endpoint, policies []*networkingv1.NetworkPolicy) (rules []string, isolated bool) {
	for _, policy := range policies {
		if policy.Namespace != subject.pod.Namespace || !hasType(policy, d.policyType) || !selects(&policy.Spec.PodSelector, subject.pod.Labels) {
			continue
		}
		isolated = true
		for _, a := range allowances(d, policy) {
			rules = append(rules, n.allowanceRules(d, subject, policy.Namespace, a)...)
		}
	}
	// A pod always reaches itself, also through its service.
	rules = append(rules, pass(fmt.Sprintf("ip %s %s", d.peer, subject.addr)))
	slices.Sort(rules)
	return slices.Compact(rules), isolated
}

// hasType applies the default the API server also applies: ingress always,
// egress if there are rules for it.
func hasType(policy *networkingv1.NetworkPolicy, t networkingv1.PolicyType) bool {
	if len(policy.Spec.PolicyTypes) > 0 {
		return slices.Contains(policy.Spec.PolicyTypes, t)
	}
	return t == networkingv1.PolicyTypeIngress || len(policy.Spec.Egress) > 0
}

func allowances(d direction, policy *networkingv1.NetworkPolicy) []allowance {
	var all []allowance
	if d.policyType == networkingv1.PolicyTypeIngress {
		for _, rule := range policy.Spec.Ingress {
			all = append(all, allowance{rule.From, rule.Ports})
		}
		return all
	}
	for _, rule := range policy.Spec.Egress {
		all = append(all, allowance{rule.To, rule.Ports})
	}
	return all
}

func (n network) allowanceRules(d direction, subject endpoint, namespace string, a allowance) []string {
	peers := n.peerMatches(d, namespace, a.peers)
	if len(a.ports) == 0 {
		return passEach(peers, "")
	}
	var all []string
	for _, port := range a.ports {
		named := port.Port != nil && port.Port.Type == intstr.String
		switch {
		case !named:
			all = append(all, passEach(peers, numberMatch(port))...)
		case d.policyType == networkingv1.PolicyTypeIngress:
			if number, ok := containerPort(subject.pod, port); ok {
				all = append(all, passEach(peers, portMatch(port, strconv.Itoa(int(number))))...)
			}
		default:
			all = append(all, n.namedEgressRules(namespace, a.peers, port)...)
		}
	}
	return all
}

// namedEgressRules: where traffic goes out, the name is that of a port of the
// peer, so each peer may have another number.
func (n network) namedEgressRules(namespace string, peers []networkingv1.NetworkPolicyPeer, port networkingv1.NetworkPolicyPort) []string {
	byNumber := map[int32][]endpoint{}
	for _, e := range n.endpoints {
		if len(peers) > 0 && !n.anySelects(peers, namespace, e) {
			continue
		}
		if number, ok := containerPort(e.pod, port); ok {
			byNumber[number] = append(byNumber[number], e)
		}
	}
	var all []string
	for _, number := range slices.Sorted(maps.Keys(byNumber)) {
		all = append(all, pass(setMatch(egress, byNumber[number]), portMatch(port, strconv.Itoa(int(number)))))
	}
	return all
}

// peerMatches returns one nft match for each way to be a peer. No peers listed
// means everyone, which is the empty match; listed peers that select nothing
// mean no one, which is no match.
func (n network) peerMatches(d direction, namespace string, peers []networkingv1.NetworkPolicyPeer) []string {
	if len(peers) == 0 {
		return []string{""}
	}
	var matches []string
	for _, peer := range peers {
		if match, ok := blockMatch(d, peer.IPBlock); ok {
			matches = append(matches, match)
		}
	}
	var selected []endpoint
	for _, e := range n.endpoints {
		if n.anySelects(peers, namespace, e) {
			selected = append(selected, e)
		}
	}
	if len(selected) > 0 {
		matches = append(matches, setMatch(d, selected))
	}
	return matches
}

func (n network) anySelects(peers []networkingv1.NetworkPolicyPeer, namespace string, e endpoint) bool {
	return slices.ContainsFunc(peers, func(peer networkingv1.NetworkPolicyPeer) bool {
		return n.peerSelects(peer, namespace, e)
	})
}

func (n network) peerSelects(peer networkingv1.NetworkPolicyPeer, namespace string, e endpoint) bool {
	if peer.IPBlock != nil {
		return false
	}
	if peer.NamespaceSelector == nil {
		if e.pod.Namespace != namespace {
			return false
		}
	} else if !selects(peer.NamespaceSelector, n.namespaceLabels[e.pod.Namespace]) {
		return false
	}
	return peer.PodSelector == nil || selects(peer.PodSelector, e.pod.Labels)
}

// selects takes a selector that the API server would refuse for one that
// selects nothing.
func selects(selector *metav1.LabelSelector, of labels.Set) bool {
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && compiled.Matches(of)
}

// blockMatch has no match for an IPv6 block: pods have IPv4 addresses only.
func blockMatch(d direction, block *networkingv1.IPBlock) (string, bool) {
	if block == nil {
		return "", false
	}
	cidr, err := netip.ParsePrefix(block.CIDR)
	if err != nil || !cidr.Addr().Is4() {
		return "", false
	}
	match := fmt.Sprintf("ip %s %s", d.peer, cidr.Masked())
	for _, text := range block.Except {
		except, err := netip.ParsePrefix(text)
		if err != nil || !except.Addr().Is4() {
			return "", false
		}
		match += fmt.Sprintf(" ip %s != %s", d.peer, except.Masked())
	}
	return match, true
}

func setMatch(d direction, endpoints []endpoint) string {
	addresses := make([]string, len(endpoints))
	for i, e := range endpoints {
		addresses[i] = e.addr.String()
	}
	return fmt.Sprintf("ip %s { %s }", d.peer, strings.Join(addresses, ", "))
}

// numberMatch is for a port given as number, as range or not at all.
func numberMatch(port networkingv1.NetworkPolicyPort) string {
	if port.Port == nil {
		return "meta l4proto " + protocolName(port)
	}
	number := strconv.Itoa(port.Port.IntValue())
	if port.EndPort != nil {
		number += "-" + strconv.Itoa(int(*port.EndPort))
	}
	return portMatch(port, number)
}

func portMatch(port networkingv1.NetworkPolicyPort, number string) string {
	return protocolName(port) + " dport " + number
}

func protocolName(port networkingv1.NetworkPolicyPort) string {
	return strings.ToLower(string(protocolOf(port)))
}

func protocolOf(port networkingv1.NetworkPolicyPort) v1.Protocol {
	if port.Protocol == nil {
		return v1.ProtocolTCP
	}
	return *port.Protocol
}

// containerPort finds the number of a named port. Sidecars are init containers
// and listen as well.
func containerPort(pod *v1.Pod, port networkingv1.NetworkPolicyPort) (int32, bool) {
	for _, container := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		for _, candidate := range container.Ports {
			protocol := cmp.Or(candidate.Protocol, v1.ProtocolTCP)
			if candidate.Name == port.Port.StrVal && protocol == protocolOf(port) {
				return candidate.ContainerPort, true
			}
		}
	}
	return 0, false
}

// passEach lets pass what is of any of the peers and also matches the port.
func passEach(peers []string, port string) []string {
	all := make([]string, len(peers))
	for i, peer := range peers {
		all[i] = pass(peer, port)
	}
	return all
}

// pass joins the matches; an empty one matches everything.
func pass(matches ...string) string {
	parts := append(slices.Clone(matches), "return")
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " ")
}
