package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// The pods and namespaces of every case.
const testNamespaces = `
- metadata: {name: shop, labels: {team: shop}}
- metadata: {name: ops, labels: {team: ops}}
`

const testPods = `
- metadata: {namespace: shop, name: api, labels: {app: api}}
  spec:
    containers:
    - ports: [{name: http, containerPort: 8080}, {name: dns, containerPort: 53, protocol: UDP}]
    initContainers:
    - ports: [{name: metrics, containerPort: 9100, protocol: TCP}]
  status: {phase: Running, podIP: 198.18.1.1}
- metadata: {namespace: shop, name: db, labels: {app: db, tier: data}}
  spec:
    containers: [{ports: [{name: http, containerPort: 5000}]}]
  status: {phase: Running, podIP: 198.18.1.2}
- metadata: {namespace: shop, name: web, labels: {app: web}}
  status: {phase: Running, podIP: 198.18.1.3}
- metadata: {namespace: ops, name: probe, labels: {app: probe}}
  spec:
    containers: [{ports: [{name: http, containerPort: 8080}]}]
  status: {phase: Running, podIP: 198.18.2.1}
- metadata: {namespace: ops, name: web, labels: {app: web}}
  status: {phase: Running, podIP: 198.18.2.2}
- metadata: {namespace: ops, name: agent, labels: {app: web}}
  spec: {hostNetwork: true}
  status: {phase: Running, podIP: 198.18.255.11}
- metadata: {namespace: ops, name: done, labels: {app: web}}
  status: {phase: Succeeded, podIP: 198.18.2.9}
- metadata: {namespace: ops, name: pending, labels: {app: web}}
  status: {phase: Pending}
`

type policyCase struct {
	name     string
	policies string              // of namespace shop unless it says another
	want     map[string][]string // the rules of each chain
}

var policyCases = []policyCase{
	{
		name: "no policy isolates no one",
		want: map[string][]string{},
	},
	{
		name:     "deny all ingress by the default policy type",
		policies: `[{spec: {podSelector: {matchLabels: {app: api}}}}]`,
		want:     map[string][]string{"ingress-198.18.1.1": {"ip saddr 198.18.1.1 return"}},
	},
	{
		name:     "an empty pod selector is the whole namespace and no other",
		policies: `[{spec: {podSelector: {}, policyTypes: [Egress]}}]`,
		want: map[string][]string{
			"egress-198.18.1.1": {"ip daddr 198.18.1.1 return"},
			"egress-198.18.1.2": {"ip daddr 198.18.1.2 return"},
			"egress-198.18.1.3": {"ip daddr 198.18.1.3 return"},
		},
	},
	{
		name:     "rules for egress imply its policy type",
		policies: `[{spec: {podSelector: {matchLabels: {app: db}}, egress: [{}]}}]`,
		want: map[string][]string{
			"ingress-198.18.1.2": {"ip saddr 198.18.1.2 return"},
			"egress-198.18.1.2":  {"ip daddr 198.18.1.2 return", "return"},
		},
	},
	{
		name:     "policy type ingress alone leaves egress open in spite of its rules",
		policies: `[{spec: {podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress], egress: [{}]}}]`,
		want:     map[string][]string{"ingress-198.18.1.2": {"ip saddr 198.18.1.2 return"}},
	},
	{
		name: "peers by pod selector are of the policy's namespace",
		policies: `[{spec: {podSelector: {matchLabels: {app: api}},
			ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]}}]`,
		want: map[string][]string{"ingress-198.18.1.1": {
			"ip saddr 198.18.1.1 return",
			"ip saddr { 198.18.1.3 } return",
		}},
	},
	{
		name: "peers by namespace selector are all its pods with an address of their own",
		policies: `[{spec: {podSelector: {matchLabels: {app: api}},
			ingress: [{from: [{namespaceSelector: {matchLabels: {team: ops}}}]}]}}]`,
		want: map[string][]string{"ingress-198.18.1.1": {
			"ip saddr 198.18.1.1 return",
			"ip saddr { 198.18.2.1, 198.18.2.2 } return",
		}},
	},
	{
		name: "both selectors in one peer must match",
		policies: `[{spec: {podSelector: {matchLabels: {app: api}},
			ingress: [{from: [{namespaceSelector: {matchLabels: {team: ops}}, podSelector: {matchLabels: {app: web}}}]}]}}]`,
		want: map[string][]string{"ingress-198.18.1.1": {
			"ip saddr 198.18.1.1 return",
			"ip saddr { 198.18.2.2 } return",
		}},
	},
	{
		name: "two peers are a union",
		policies: `[{spec: {podSelector: {matchLabels: {app: api}},
			ingress: [{from: [{namespaceSelector: {matchLabels: {team: ops}}}, {podSelector: {matchLabels: {app: web}}}]}]}}]`,
		want: map[string][]string{"ingress-198.18.1.1": {
			"ip saddr 198.18.1.1 return",
			"ip saddr { 198.18.1.3, 198.18.2.1, 198.18.2.2 } return",
		}},
	},
	{
		name: "expressions select as labels do",
		policies: `[{spec: {podSelector: {matchExpressions: [{key: app, operator: In, values: [api, db]}, {key: tier, operator: DoesNotExist}]},
			ingress: [{from: [{namespaceSelector: {}, podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [api, db, web]}]}}]}]}}]`,
		want: map[string][]string{"ingress-198.18.1.1": {
			"ip saddr 198.18.1.1 return",
			"ip saddr { 198.18.2.1 } return",
		}},
	},
	{
		name: "peers that select no one allow no one",
		policies: `[{spec: {podSelector: {matchLabels: {app: api}},
			ingress: [{from: [{podSelector: {matchLabels: {app: nothing}}}], ports: [{port: 80}]}]}}]`,
		want: map[string][]string{"ingress-198.18.1.1": {"ip saddr 198.18.1.1 return"}},
	},
	{
		name: "address blocks with exceptions, also overlapping ones and hosts of a network",
		policies: `[{spec: {podSelector: {matchLabels: {app: api}}, policyTypes: [Egress],
			egress: [{to: [{ipBlock: {cidr: 10.1.2.3/8, except: [10.1.0.0/16, 10.1.2.0/24]}}, {ipBlock: {cidr: 0.0.0.0/0, except: [198.18.0.0/16]}}, {ipBlock: {cidr: "::/0"}}]}]}}]`,
		want: map[string][]string{"egress-198.18.1.1": {
			"ip daddr 0.0.0.0/0 ip daddr != 198.18.0.0/16 return",
			"ip daddr 10.0.0.0/8 ip daddr != 10.1.0.0/16 ip daddr != 10.1.2.0/24 return",
			"ip daddr 198.18.1.1 return",
		}},
	},
	{
		name:     "the block of all addresses",
		policies: `[{spec: {podSelector: {matchLabels: {app: api}}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0}}]}]}}]`,
		want: map[string][]string{"egress-198.18.1.1": {
			"ip daddr 0.0.0.0/0 return",
			"ip daddr 198.18.1.1 return",
		}},
	},
	{
		name: "ports by number, range, protocol and protocol alone",
		policies: `[{spec: {podSelector: {matchLabels: {app: api}},
			ingress: [{ports: [{port: 80}, {port: 8000, endPort: 8010}, {port: 8005, endPort: 8020}, {port: 53, protocol: UDP}, {port: 36412, protocol: SCTP}, {protocol: UDP}]}]}}]`,
		want: map[string][]string{"ingress-198.18.1.1": {
			"ip saddr 198.18.1.1 return",
			"meta l4proto udp return",
			"sctp dport 36412 return",
			"tcp dport 80 return",
			"tcp dport 8000-8010 return",
			"tcp dport 8005-8020 return",
			"udp dport 53 return",
		}},
	},
	{
		name: "a named port of ingress is the pod's own, of the same protocol",
		policies: `[{spec: {podSelector: {},
			ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: http}, {port: metrics}, {port: dns}, {port: dns, protocol: UDP}]}]}}]`,
		want: map[string][]string{
			"ingress-198.18.1.1": {
				"ip saddr 198.18.1.1 return",
				"ip saddr { 198.18.1.3 } tcp dport 8080 return",
				"ip saddr { 198.18.1.3 } tcp dport 9100 return",
				"ip saddr { 198.18.1.3 } udp dport 53 return",
			},
			"ingress-198.18.1.2": {
				"ip saddr 198.18.1.2 return",
				"ip saddr { 198.18.1.3 } tcp dport 5000 return",
			},
			"ingress-198.18.1.3": {"ip saddr 198.18.1.3 return"},
		},
	},
	{
		name: "a named port of egress is each peer's own",
		policies: `[{spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Egress],
			egress: [{to: [{podSelector: {}}, {namespaceSelector: {matchLabels: {team: ops}}}], ports: [{port: http}]}]}}]`,
		want: map[string][]string{"egress-198.18.1.3": {
			"ip daddr 198.18.1.3 return",
			"ip daddr { 198.18.1.1, 198.18.2.1 } tcp dport 8080 return",
			"ip daddr { 198.18.1.2 } tcp dport 5000 return",
		}},
	},
	{
		name: "several policies for a pod are a union, without repetition",
		policies: `[{spec: {podSelector: {}}},
			{spec: {podSelector: {matchLabels: {app: api}}, ingress: [{ports: [{port: 80}]}]}},
			{spec: {podSelector: {matchLabels: {app: api}}, ingress: [{ports: [{port: 80}, {port: 81}]}]}},
			{metadata: {namespace: ops}, spec: {podSelector: {matchLabels: {app: api}}, ingress: [{}]}}]`,
		want: map[string][]string{
			"ingress-198.18.1.1": {"ip saddr 198.18.1.1 return", "tcp dport 80 return", "tcp dport 81 return"},
			"ingress-198.18.1.2": {"ip saddr 198.18.1.2 return"},
			"ingress-198.18.1.3": {"ip saddr 198.18.1.3 return"},
		},
	},
}

func TestCompileRuleset(t *testing.T) {
	for _, c := range policyCases {
		t.Run(c.name, func(t *testing.T) {
			got := podChains(t, compileCase(t, c))
			for chain, want := range c.want {
				if !slices.Equal(got[chain], want) {
					t.Errorf("chain %s\n got %q\nwant %q", chain, got[chain], want)
				}
				delete(got, chain)
			}
			for chain, rules := range got {
				t.Errorf("unexpected chain %s: %q", chain, rules)
			}
		})
	}
}

func TestCompileRulesetText(t *testing.T) {
	c := policyCase{policies: `[{spec: {podSelector: {matchLabels: {app: api}}, policyTypes: [Ingress, Egress], ingress: [{ports: [{port: 80}]}]}}]`}
	want := `	chain egress-198.18.1.1 {
		# shop/api
		ip daddr 198.18.1.1 return
		counter drop
	}
	chain ingress-198.18.1.1 {
		# shop/api
		ip saddr 198.18.1.1 return
		tcp dport 80 return
		counter drop
	}
	chain forward {
		type filter hook forward priority -5; policy accept;
		ct state established,related accept
		ip saddr vmap { 198.18.1.1 : jump egress-198.18.1.1 }
		ip daddr vmap { 198.18.1.1 : jump ingress-198.18.1.1 }
	}
`
	if got := compileCase(t, c); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestCompileRulesetIgnoresOrder(t *testing.T) {
	for _, c := range policyCases {
		policies, pods, namespaces := caseObjects(t, c)
		want := compileRuleset(policies, pods, namespaces)
		slices.Reverse(policies)
		slices.Reverse(pods)
		slices.Reverse(namespaces)
		if got := compileRuleset(policies, pods, namespaces); got != want {
			t.Errorf("%s: another order gives\n%s\nnot\n%s", c.name, got, want)
		}
	}
}

// The address of a stopping pod may be given to the next one before the first
// is gone from the API.
func TestAddressBelongsToTheYoungerPod(t *testing.T) {
	pod := func(name string, age time.Duration) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))},
			Status:     v1.PodStatus{PodIP: "198.18.1.1"},
		}
	}
	old, young := pod("old", time.Hour), pod("young", time.Minute)
	for _, pods := range [][]*v1.Pod{{old, young}, {young, old}} {
		endpoints := newNetwork(pods, nil).endpoints
		if len(endpoints) != 1 || endpoints[0].pod != young {
			t.Errorf("endpoints are %v, want the younger pod alone", endpoints)
		}
	}
}

// nft itself judges every ruleset above. It checks against the kernel, which
// needs root, and changes nothing.
func TestRulesetsAreValid(t *testing.T) {
	const table = "chiplog-unit-test"
	if os.Geteuid() != 0 {
		t.Skip("nft needs root")
	}
	if _, err := command(t.Context(), "", "nft", "list", "tables"); err != nil {
		t.Skipf("nft does not work here: %v", err)
	}
	for _, c := range policyCases {
		ruleset := replaceTable(table, compileCase(t, c))
		if _, err := command(t.Context(), ruleset, "nft", "-c", "-f", "-"); err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, ruleset)
		}
	}
}

func compileCase(t *testing.T, c policyCase) string {
	t.Helper()
	return compileRuleset(caseObjects(t, c))
}

func caseObjects(t *testing.T, c policyCase) (policies []*networkingv1.NetworkPolicy, pods []*v1.Pod, namespaces []*v1.Namespace) {
	t.Helper()
	read(t, c.policies, &policies)
	read(t, testPods, &pods)
	read(t, testNamespaces, &namespaces)
	for _, policy := range policies {
		if policy.Namespace == "" {
			policy.Namespace = "shop"
		}
	}
	return policies, pods, namespaces
}

func read(t *testing.T, text string, into any) {
	t.Helper()
	text = strings.ReplaceAll(text, "\t", " ")
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
}

// podChains takes the text apart: each chain but forward, without the comment
// at its begin and the drop at its end.
func podChains(t *testing.T, text string) map[string][]string {
	t.Helper()
	chains := map[string][]string{}
	for _, block := range strings.Split(text, "\tchain ")[1:] {
		lines := strings.Split(strings.TrimSuffix(block, "\n\t}\n"), "\n\t\t")
		name := strings.TrimSuffix(lines[0], " {")
		if name == "forward" {
			continue
		}
		last := len(lines) - 1
		if !strings.HasPrefix(lines[1], "# ") || lines[last] != "counter drop" {
			t.Errorf("chain %s lacks its comment or its drop: %q", name, lines)
		}
		chains[name] = lines[2:last]
	}
	return chains
}
