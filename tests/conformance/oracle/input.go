package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
)

// cluster is everything the scheduler knows apart from the pending pod.
type cluster struct {
	nodes                  []*v1.Node
	pods                   []*v1.Pod
	namespaces             []*v1.Namespace
	services               []*v1.Service
	replicaSets            []*appsv1.ReplicaSet
	persistentVolumes      []*v1.PersistentVolume
	persistentVolumeClaims []*v1.PersistentVolumeClaim
	storageClasses         []*storagev1.StorageClass
	csiNodes               []*storagev1.CSINode
	csiDrivers             []*storagev1.CSIDriver
	csiStorageCapacities   []*storagev1.CSIStorageCapacity
	podDisruptionBudgets   []*policyv1.PodDisruptionBudget
	deviceClasses          []*resourcev1.DeviceClass
	deviceTaintRules       []*resourcev1.DeviceTaintRule
	resourceSlices         []*resourcev1.ResourceSlice
	resourceClaims         []*resourcev1.ResourceClaim
	resourceClaimTemplates []*resourcev1.ResourceClaimTemplate
}

// caseInput is one line of input.
type caseInput struct {
	cluster
	group        string
	pluginConfig json.RawMessage
	pod          *v1.Pod
	steps        [][]field
}

func (c *caseInput) set(name string, raw []byte) error {
	switch name {
	case "id":
		return nil
	case "group":
		return json.Unmarshal(raw, &c.group)
	case "pluginConfig":
		c.pluginConfig = raw
		return nil
	case "pod":
		c.pod = &v1.Pod{}
		return decodePod(raw, c.pod)
	case "steps":
		var steps []json.RawMessage
		if err := json.Unmarshal(raw, &steps); err != nil {
			return err
		}
		c.steps = [][]field{}
		for _, s := range steps {
			fields, err := parseObject(s)
			if err != nil {
				return err
			}
			c.steps = append(c.steps, fields)
		}
		return nil
	case "nodes":
		return decode(raw, &c.nodes)
	case "pods":
		if err := decode(raw, &c.pods); err != nil {
			return err
		}
		for _, p := range c.pods {
			complete(p)
		}
		return nil
	case "namespaces":
		return decode(raw, &c.namespaces)
	case "services":
		return decode(raw, &c.services)
	case "replicaSets":
		return decode(raw, &c.replicaSets)
	case "persistentVolumes":
		return decode(raw, &c.persistentVolumes)
	case "persistentVolumeClaims":
		return decode(raw, &c.persistentVolumeClaims)
	case "storageClasses":
		return decode(raw, &c.storageClasses)
	case "csiNodes":
		return decode(raw, &c.csiNodes)
	case "csiDrivers":
		return decode(raw, &c.csiDrivers)
	case "csiStorageCapacities":
		return decode(raw, &c.csiStorageCapacities)
	case "podDisruptionBudgets":
		return decode(raw, &c.podDisruptionBudgets)
	case "deviceClasses":
		return decode(raw, &c.deviceClasses)
	case "deviceTaintRules":
		return decode(raw, &c.deviceTaintRules)
	case "resourceSlices":
		return decode(raw, &c.resourceSlices)
	case "resourceClaims":
		return decode(raw, &c.resourceClaims)
	case "resourceClaimTemplates":
		return decode(raw, &c.resourceClaimTemplates)
	}
	return fmt.Errorf("unknown field")
}

func decode[T any](raw []byte, into *T) error { return utiljson.Unmarshal(raw, into) }

func decodePod(raw []byte, into *v1.Pod) error {
	if err := decode(raw, into); err != nil {
		return err
	}
	complete(into)
	return nil
}

// complete adds the UID which the cache wants.
func complete(p *v1.Pod) {
	if p.UID == "" {
		p.UID = types.UID(p.Namespace + "/" + p.Name)
	}
}

var profiles sync.Map

// profileFor is the default profile with a case's pluginConfig, defaulted and converted as the scheduler's own
// configuration file is.
func profileFor(pluginConfig json.RawMessage) (*config.KubeSchedulerProfile, error) {
	if p, ok := profiles.Load(string(pluginConfig)); ok {
		return p.(*config.KubeSchedulerProfile), nil
	}
	text := `{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration"`
	if pluginConfig != nil {
		text += `,"profiles":[{"schedulerName":"default-scheduler","pluginConfig":` + string(pluginConfig) + `}]`
	}
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(text+"}"), nil, nil)
	if err != nil {
		return nil, fmt.Errorf("pluginConfig: %w", err)
	}
	p := &obj.(*config.KubeSchedulerConfiguration).Profiles[0]
	profiles.Store(string(pluginConfig), p)
	return p, nil
}

// answerSteps goes through a sequence. Each expectation comes from a new scheduler with the objects of that moment.
func answerSteps(c *caseInput, profile *config.KubeSchedulerProfile) (json.RawMessage, error) {
	steps := make([]json.RawMessage, 0, len(c.steps))
	homes := map[types.NamespacedName]string{} // where the pods of the schedule steps went, if anywhere
	for i, fields := range c.steps {
		fields = without(fields, "expect", "placed")
		if len(fields) != 1 {
			return nil, fmt.Errorf("step %d: not exactly one field", i)
		}
		if fields[0].name == "schedule" {
			pod := &v1.Pod{}
			if err := decodePod(fields[0].raw, pod); err != nil {
				return nil, fmt.Errorf("step %d: %w", i, err)
			}
			e, err := evaluate(&c.cluster, profile, pod, false, false)
			if err != nil {
				return nil, fmt.Errorf("step %d: %w", i, err)
			}
			placed := ""
			if len(e.Best) > 0 {
				placed = slices.Min(e.Best)
				fields = append(fields, field{"placed", encode(placed)})
				pod.Spec.NodeName = placed
				pod.Status.Phase = v1.PodRunning
				c.pods = append(c.pods, pod)
			}
			homes[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = placed
			fields = append(fields, field{"expect", encode(e)})
		} else if possible, err := settle(&fields[0], homes); err != nil {
			return nil, fmt.Errorf("step %d, %s: %w", i, fields[0].name, err)
		} else if !possible {
			continue
		} else if err := c.change(fields[0].name, fields[0].raw); err != nil {
			return nil, fmt.Errorf("step %d, %s: %w", i, fields[0].name, err)
		}
		steps = append(steps, writeObject(fields))
	}
	b := []byte{'['}
	for i, s := range steps {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, s...)
	}
	return append(b, ']'), nil
}

// settle fills in what the generator of a step could not know: the node of a pod which an earlier step scheduled. It
// returns false if that pod was left out; then there is nothing to change.
func settle(f *field, homes map[types.NamespacedName]string) (bool, error) {
	var key types.NamespacedName
	switch f.name {
	case "deletePod":
		var pod metav1.ObjectMeta
		if err := decode(f.raw, &pod); err != nil {
			return false, err
		}
		key = types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	case "updatePod":
		var pod metav1.PartialObjectMetadata
		if err := decode(f.raw, &pod); err != nil {
			return false, err
		}
		key = types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	default:
		return true, nil
	}
	home, scheduled := homes[key]
	if !scheduled || f.name == "deletePod" {
		return !scheduled || home != "", nil
	}
	if home == "" {
		return false, nil
	}
	pod := map[string]any{}
	if err := decode(f.raw, &pod); err != nil {
		return false, err
	}
	spec, _ := pod["spec"].(map[string]any)
	if spec == nil {
		return false, fmt.Errorf("pod without spec")
	}
	status, _ := pod["status"].(map[string]any)
	if spec["nodeName"] == home && status["phase"] != nil {
		return true, nil // as it is
	}
	spec["nodeName"] = home
	if status == nil {
		status = map[string]any{}
		pod["status"] = status
	}
	if status["phase"] == nil {
		status["phase"] = v1.PodRunning
	}
	f.raw = encode(pod)
	return true, nil
}

// change applies a step other than schedule.
func (c *cluster) change(name string, raw []byte) error {
	switch name {
	case "addPod", "updatePod":
		pod := &v1.Pod{}
		if err := decodePod(raw, pod); err != nil {
			return err
		}
		return put(&c.pods, pod, name == "addPod")
	case "deletePod":
		var key metav1.ObjectMeta
		if err := decode(raw, &key); err != nil {
			return err
		}
		return drop(&c.pods, key.Namespace, key.Name)
	case "addNode", "updateNode":
		node := &v1.Node{}
		if err := decode(raw, node); err != nil {
			return err
		}
		return put(&c.nodes, node, name == "addNode")
	case "deleteNode":
		var node string
		if err := json.Unmarshal(raw, &node); err != nil {
			return err
		}
		return drop(&c.nodes, "", node)
	case "updateNamespace":
		ns := &v1.Namespace{}
		if err := decode(raw, ns); err != nil {
			return err
		}
		if find(c.namespaces, "", ns.Name) < 0 {
			c.namespaces = append(c.namespaces, ns)
			return nil
		}
		return put(&c.namespaces, ns, false)
	}
	return fmt.Errorf("unknown step")
}

func find[T metav1.Object](list []T, namespace, name string) int {
	return slices.IndexFunc(list, func(o T) bool { return o.GetNamespace() == namespace && o.GetName() == name })
}

func put[T metav1.Object](list *[]T, obj T, isNew bool) error {
	i := find(*list, obj.GetNamespace(), obj.GetName())
	switch {
	case isNew != (i < 0):
		return fmt.Errorf("%s/%s: there already, or not there", obj.GetNamespace(), obj.GetName())
	case i < 0:
		*list = append(*list, obj)
	default:
		(*list)[i] = obj
	}
	return nil
}

func drop[T metav1.Object](list *[]T, namespace, name string) error {
	i := find(*list, namespace, name)
	if i < 0 {
		return fmt.Errorf("%s/%s: not there", namespace, name)
	}
	*list = slices.Delete(*list, i, i+1)
	return nil
}
