package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

type candidateOut struct {
	Victims       []string   `json:"victims"`
	PDBViolations int        `json:"pdbViolations"`
	Alternatives  [][]string `json:"alternatives,omitempty"`
}

// preemptionOut is the field "preemption" of an expectation.
type preemptionOut struct {
	Status        *statusOut               `json:"status"`
	NominatedNode string                   `json:"nominatedNode"`
	Acceptable    []string                 `json:"acceptable,omitempty"`
	Victims       []string                 `json:"victims"`
	Ambiguous     bool                     `json:"ambiguous,omitempty"`
	Candidates    map[string]*candidateOut `json:"candidates,omitempty"`
	NotCandidates map[string]*statusOut    `json:"notCandidates,omitempty"`
}

// maxOrders is how many orders of equal pods are tried on one node.
const maxOrders = 5040

// choice is one way in which preemption may come out on a node.
type choice struct {
	victims    []*v1.Pod
	violations int
}

func startTime(p *v1.Pod) int64 {
	if p.Status.StartTime != nil {
		return p.Status.StartTime.UnixNano()
	}
	return now.UnixNano()
}

func moreImportant(a, b *v1.Pod, tie func(a, b *v1.Pod) bool) bool {
	if x, y := corev1helpers.PodPriority(a), corev1helpers.PodPriority(b); x != y {
		return x > y
	}
	if x, y := startTime(a), startTime(b); x != y {
		return x < y
	}
	return tie(a, b)
}

// outcome is a nomination that is possible, and how many victims go with it.
type outcome struct {
	node    string
	victims int
}

// text is the end of the message that a newer scheduler gives with a nomination.
func (o outcome) text() string {
	return fmt.Sprintf("on node %s, preempting %d victims", o.node, o.victims)
}

// postFilter runs the PostFilter plugins for their status and text, and also gets the details of preemption. The
// texts are all that are possible where a choice is random; the first is that of the nominated node.
func (w *world) postFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, verdicts *framework.NodeToStatus) (*preemptionOut, []string) {
	out := &preemptionOut{Victims: []string{}}
	// The details come first: they change neither the state nor the snapshot.
	outcomes := w.details(ctx, state, pod, verdicts, out)
	usual := outcome{out.NominatedNode, len(out.Victims)}.text()
	var status *fwk.Status
	for range 10000 {
		// Which of the acceptable nodes is nominated is random; the status of the usual choice is wanted.
		var result *fwk.PostFilterResult
		result, status = w.RunPostFilterPlugins(ctx, state, pod, verdicts)
		if !status.IsSuccess() || result == nil || result.NominatingInfo == nil {
			break
		}
		if !slices.Contains(out.Acceptable, result.NominatedNodeName) {
			panic("nominated " + result.NominatedNodeName + ", acceptable " + strings.Join(out.Acceptable, " "))
		}
		if result.NominatedNodeName == out.NominatedNode && (status.Message() == "" || strings.HasSuffix(status.Message(), usual)) {
			break
		}
	}
	out.Status = statusOf(status)
	if status.Code() == fwk.Error { // preemption never ran
		*out = preemptionOut{Status: out.Status, Victims: []string{}}
	}
	texts := []string{status.Message()}
	if before, found := strings.CutSuffix(texts[0], usual); found && status.IsSuccess() {
		for _, o := range outcomes {
			if t := before + o.text(); !slices.Contains(texts, t) {
				texts = append(texts, t)
			}
		}
	}
	return out, texts
}

// details finds the candidates, as Evaluator.Preempt does, and all outcomes that are possible.
func (w *world) details(ctx context.Context, state fwk.CycleState, pod *v1.Pod, verdicts *framework.NodeToStatus, out *preemptionOut) []outcome {
	if ok, _ := w.preemption.PodEligibleToPreemptOthers(ctx, pod, verdicts.Get(pod.Status.NominatedNodeName)); !ok {
		return nil
	}
	potential, err := verdicts.NodesForStatusCode(w.snapshot.NodeInfos(), fwk.Unschedulable)
	if err != nil || len(potential) == 0 {
		return nil
	}
	pdbs, err := w.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
	if err != nil {
		return nil
	}
	sort.Slice(pdbs, func(i, j int) bool {
		return pdbs[i].Namespace+"/"+pdbs[i].Name < pdbs[j].Namespace+"/"+pdbs[j].Name
	})
	choices := map[string][]choice{}
	for _, n := range potential {
		name := n.Node().Name
		victims, violations, status := selectVictims(ctx, w.preemption, state, pod, n, pdbs)
		if !status.IsSuccess() || len(victims) == 0 {
			if out.NotCandidates == nil {
				out.NotCandidates = map[string]*statusOut{}
			}
			s := statusOf(status)
			slices.Sort(s.Reasons)
			out.NotCandidates[name] = s
			continue
		}
		choices[name] = append([]choice{{victims, violations}}, w.otherChoices(ctx, state, pod, n, pdbs, choice{victims, violations})...)
		c := &candidateOut{Victims: names(victims), PDBViolations: violations}
		for _, o := range choices[name][1:] {
			v := sorted(names(o.victims))
			same := func(a []string) bool { return slices.Equal(a, v) }
			if !same(sorted(c.Victims)) && !slices.ContainsFunc(c.Alternatives, same) {
				c.Alternatives = append(c.Alternatives, v)
				out.Ambiguous = true
			}
		}
		slices.SortFunc(c.Alternatives, slices.Compare)
		if out.Candidates == nil {
			out.Candidates = map[string]*candidateOut{}
		}
		out.Candidates[name] = c
	}
	if len(choices) == 0 {
		return nil
	}
	outcomes := possible(choices)
	for _, o := range outcomes {
		out.Acceptable = append(out.Acceptable, o.node)
	}
	out.Acceptable = slices.Compact(out.Acceptable)
	out.NominatedNode = out.Acceptable[0]
	out.Victims = out.Candidates[out.NominatedNode].Victims
	return outcomes
}

// otherChoices lists what comes out with other orders of equal pods, and with other orders of disruption budgets
// where several hold for one pod.
func (w *world) otherChoices(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo, pdbs []*policyv1.PodDisruptionBudget, usual choice) []choice {
	none := func(a, b *v1.Pod) bool { return false }
	var victims []*v1.Pod
	for _, p := range node.GetPods() {
		if corev1helpers.PodPriority(p.GetPod()) < corev1helpers.PodPriority(pod) {
			victims = append(victims, p.GetPod())
		}
	}
	sort.SliceStable(victims, func(i, j int) bool { return moreImportant(victims[i], victims[j], none) })
	var groups [][]int // positions of equal pods
	for i := range victims {
		if last := len(groups) - 1; i > 0 && !moreImportant(victims[i-1], victims[i], none) {
			groups[last] = append(groups[last], i)
		} else {
			groups = append(groups, []int{i})
		}
	}
	var budgets [][]int
	if overlap(pdbs, victims) {
		budgets = [][]int{{}}
		for i := range pdbs {
			budgets[0] = append(budgets[0], i)
		}
	}
	seen := map[string]bool{usual.key(): true}
	var others []choice
	before := w.order
	defer func() { w.setOrder(before) }()
	index := map[*v1.Pod]int{}
	for i, p := range victims {
		index[p] = i
	}
	try := func(order func(a, b *v1.Pod) bool, pdbs []*policyv1.PodDisruptionBudget) {
		w.setOrder(order)
		v, violations, status := selectVictims(ctx, w.preemption, state, pod, node, pdbs)
		if c := (choice{v, violations}); status.IsSuccess() && !seen[c.key()] {
			seen[c.key()] = true
			others = append(others, c)
		}
	}
	permutations(budgets, len(pdbs), func(pdbRank []int) {
		shuffled := make([]*policyv1.PodDisruptionBudget, len(pdbs))
		for i, r := range pdbRank {
			shuffled[r] = pdbs[i]
		}
		try(before, shuffled)
		permutations(groups, len(victims), func(rank []int) {
			try(func(a, b *v1.Pod) bool { return rank[index[a]] < rank[index[b]] }, shuffled)
		})
	})
	return others
}

// permutations calls f with the ranks of n things in every order that permutes the members of each group among
// themselves, or in many such orders if there are too many. It calls f once if there are no groups, and not at all if no
// group has two members.
func permutations(groups [][]int, n int, f func(rank []int)) {
	rank := make([]int, n)
	for i := range rank {
		rank[i] = i
	}
	if len(groups) == 0 {
		f(rank)
		return
	}
	total := 1
	for _, g := range groups {
		for i := range g {
			total = min(total*(i+1), maxOrders+1)
		}
	}
	switch {
	case total == 1:
		return
	case total > maxOrders:
		rng := rand.New(rand.NewPCG(1, 2))
		for range maxOrders {
			for _, g := range groups {
				rng.Shuffle(len(g), func(i, j int) { rank[g[i]], rank[g[j]] = rank[g[j]], rank[g[i]] })
			}
			f(rank)
		}
		return
	}
	var permute func(g, i int)
	permute = func(g, i int) {
		if g == len(groups) {
			f(rank)
			return
		}
		if i >= len(groups[g])-1 {
			permute(g+1, 0)
			return
		}
		for j := i; j < len(groups[g]); j++ {
			a, b := groups[g][i], groups[g][j]
			rank[a], rank[b] = rank[b], rank[a]
			permute(g, i+1)
			rank[a], rank[b] = rank[b], rank[a]
		}
	}
	permute(0, 0)
}

// overlap says whether more than one budget holds for some pod; then their order may matter.
func overlap(pdbs []*policyv1.PodDisruptionBudget, pods []*v1.Pod) bool {
	for _, p := range pods {
		count := 0
		for _, b := range pdbs {
			selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
			if err == nil && b.Namespace == p.Namespace && !selector.Empty() && selector.Matches(labels.Set(p.Labels)) {
				count++
			}
		}
		if count > 1 {
			return true
		}
	}
	return false
}

func (c choice) key() string {
	return fmt.Sprint(c.violations, sorted(names(c.victims)))
}

// possible lists what pickOneNodeForPreemption may come to, whichever of its choices each node gets, in the order of
// the nodes' names.
func possible(choices map[string][]choice) []outcome {
	score := func(c choice) []int64 { // less is better
		highest := corev1helpers.PodPriority(c.victims[0])
		earliest := int64(math.MaxInt64)
		var sum int64
		for _, p := range c.victims {
			priority := corev1helpers.PodPriority(p)
			sum += int64(priority) + math.MaxInt32 + 1
			if priority == highest {
				earliest = min(earliest, startTime(p))
			}
		}
		return []int64{int64(c.violations), int64(highest), sum, int64(len(c.victims)), -earliest}
	}
	var outcomes []outcome
	for _, name := range slices.Sorted(maps.Keys(choices)) {
		for _, c := range choices[name] {
			// It may win if every other node has a choice that is no better.
			wins := true
			for other, theirs := range choices {
				wins = wins && (other == name || slices.ContainsFunc(theirs, func(t choice) bool {
					return slices.Compare(score(t), score(c)) >= 0
				}))
			}
			if o := (outcome{name, len(c.victims)}); wins && !slices.Contains(outcomes, o) {
				outcomes = append(outcomes, o)
			}
		}
	}
	return outcomes
}

func names(pods []*v1.Pod) []string {
	out := make([]string, 0, len(pods))
	for _, p := range pods {
		out = append(out, p.Namespace+"/"+p.Name)
	}
	return out
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }

// usualOrder is how equally important pods are ordered: a pod without start time counts as started when it is looked
// at first, in the order of the node's pods. Otherwise it is left to the sort.
func usualOrder(rank map[*v1.Pod]int) func(a, b *v1.Pod) bool {
	return func(a, b *v1.Pod) bool { return a.Status.StartTime == nil && rank[a] < rank[b] }
}

// setOrder makes the order of victims definite: by importance, then as tie says.
func setOrder(p *defaultpreemption.DefaultPreemption, tie func(a, b *v1.Pod) bool) {
	p.MoreImportantVictim = func(a, b preemption.Victim) bool {
		return moreImportant(a.Pods()[0].GetPod(), b.Pods()[0].GetPod(), tie)
	}
}

func selectVictims(ctx context.Context, p *defaultpreemption.DefaultPreemption, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo, pdbs []*policyv1.PodDisruptionBudget) ([]*v1.Pod, int, *fwk.Status) {
	victims, err := p.Evaluator.GetVictimsOnNode(ctx, node)
	if err != nil {
		return nil, 0, fwk.AsStatus(err)
	}
	return p.SelectVictimsOnNode(ctx, state.Clone(), pod, node.Snapshot(), victims, pdbs)
}
