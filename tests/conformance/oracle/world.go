package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// world is a scheduler for one moment of one case: what scheduler.New sets up, without its event
// handlers and its queue's loops. The cache is filled by hand, in the order of the case's lists.
type world struct {
	framework.Framework
	snapshot   *internalcache.Snapshot
	client     *fake.Clientset
	informers  map[reflect.Type]*staticInformer
	preemption *defaultpreemption.DefaultPreemption
	dra        *dynamicresources.DynamicResources
	recorder   bindingWait
	weights    map[string]int64
	order      func(a, b *v1.Pod) bool // of victims which are equally important
	cancel     context.CancelFunc
}

// staticInformer is an informer whose objects are given. Handlers get them in one go when it starts,
// in the order of the list, so there is nothing to wait for and no goroutine to stop.
type staticInformer struct {
	cache.SharedIndexInformer
	objects  []runtime.Object
	handlers []cache.ResourceEventHandler
	started  bool
	shuffled bool // lists come in random order, as from the indexer itself
}

func (s *staticInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	s.handlers = append(s.handlers, h)
	if s.started {
		for _, o := range s.objects {
			h.OnAdd(o, true)
		}
	}
	return synced{}, nil
}

func (s *staticInformer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandler(h)
}

func (s *staticInformer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandler(h)
}

func (s *staticInformer) RemoveEventHandler(cache.ResourceEventHandlerRegistration) error { return nil }
func (s *staticInformer) HasSynced() bool                                                 { return true }
func (s *staticInformer) HasSyncedChecker() cache.DoneChecker                             { return synced{} }

func (s *staticInformer) start() error {
	for _, o := range s.objects {
		if err := s.GetIndexer().Add(o); err != nil {
			return err
		}
	}
	s.started = true
	for _, h := range s.handlers {
		for _, o := range s.objects {
			h.OnAdd(o, true)
		}
	}
	return nil
}

// GetIndexer lists the objects in their order unless they are to be shuffled.
func (s *staticInformer) GetIndexer() cache.Indexer {
	if s.shuffled {
		return s.SharedIndexInformer.GetIndexer()
	}
	return orderedIndexer{s.SharedIndexInformer.GetIndexer(), s}
}

type orderedIndexer struct {
	cache.Indexer
	informer *staticInformer
}

func (o orderedIndexer) sort(found []any) []any {
	position := make(map[any]int, len(o.informer.objects))
	for i, object := range o.informer.objects {
		position[object] = i
	}
	slices.SortFunc(found, func(a, b any) int { return position[a] - position[b] })
	return found
}

func (o orderedIndexer) List() []any { return o.sort(o.Indexer.List()) }

func (o orderedIndexer) Index(name string, object any) ([]any, error) {
	found, err := o.Indexer.Index(name, object)
	return o.sort(found), err
}

func (o orderedIndexer) ByIndex(name, value string) ([]any, error) {
	found, err := o.Indexer.ByIndex(name, value)
	return o.sort(found), err
}

// add brings one more object.
func (s *staticInformer) add(o runtime.Object) error {
	s.objects = append(s.objects, o)
	if err := s.GetIndexer().Add(o); err != nil {
		return err
	}
	for _, h := range s.handlers {
		h.OnAdd(o, false)
	}
	return nil
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

type synced struct{}

func (synced) HasSynced() bool                     { return true }
func (synced) HasSyncedChecker() cache.DoneChecker { return synced{} }
func (synced) Name() string                        { return "static" }
func (synced) Done() <-chan struct{}               { return closed }

func give[T runtime.Object](w *world, f informers.SharedInformerFactory, example T, objects []T) {
	s := &staticInformer{}
	for _, o := range objects {
		s.objects = append(s.objects, o)
	}
	w.informers[reflect.TypeOf(example)] = s
	f.InformerFor(example, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		s.SharedIndexInformer = cache.NewSharedIndexInformer(&cache.ListWatch{}, example, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		return s
	})
}

// now is the start time of every pod which has none.
var now = time.Now()

var recorder = metrics.NewMetricsAsyncRecorder(1000, time.Hour, make(chan struct{}))

func isTerminal(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

// newWorld makes the scheduler for this cluster and pending pod.
func newWorld(c *cluster, profile *config.KubeSchedulerProfile, pod *v1.Pod) (_ *world, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			cancel()
		}
	}()
	logger := klog.FromContext(ctx)
	w := &world{informers: map[reflect.Type]*staticInformer{}, weights: map[string]int64{}, cancel: cancel}

	// The client is only written to: victims are evicted, claims allocated.
	var written []runtime.Object
	for _, o := range c.resourceClaims {
		written = append(written, o)
	}
	w.client = fake.NewSimpleClientset(written...)
	w.client.PrependReactor("*", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &v1.Pod{}, nil
	})

	var pods []*v1.Pod // known to the scheduler: its informer leaves out those that have ended
	for _, p := range c.pods {
		if !isTerminal(p) {
			pods = append(pods, p)
		}
	}
	f := informers.NewSharedInformerFactory(w.client, 0)
	give(w, f, &v1.Node{}, c.nodes)
	give(w, f, &v1.Pod{}, append(pods[:len(pods):len(pods)], pod))
	give(w, f, &v1.Namespace{}, c.namespaces)
	give(w, f, &v1.Service{}, c.services)
	give(w, f, &v1.ReplicationController{}, nil)
	give(w, f, &appsv1.ReplicaSet{}, c.replicaSets)
	give(w, f, &appsv1.StatefulSet{}, nil)
	give(w, f, &v1.PersistentVolume{}, c.persistentVolumes)
	give(w, f, &v1.PersistentVolumeClaim{}, c.persistentVolumeClaims)
	give(w, f, &storagev1.StorageClass{}, c.storageClasses)
	give(w, f, &storagev1.CSINode{}, c.csiNodes)
	give(w, f, &storagev1.CSIDriver{}, c.csiDrivers)
	give(w, f, &storagev1.CSIStorageCapacity{}, c.csiStorageCapacities)
	give(w, f, &storagev1.VolumeAttachment{}, nil)
	give(w, f, &policyv1.PodDisruptionBudget{}, c.podDisruptionBudgets)
	w.informers[reflect.TypeFor[*policyv1.PodDisruptionBudget]()].shuffled = true // see postFilter
	give(w, f, &resourcev1.DeviceClass{}, c.deviceClasses)
	give(w, f, &resourcev1.ResourceSlice{}, c.resourceSlices)
	give(w, f, &resourcev1.ResourceClaim{}, c.resourceClaims)
	give(w, f, &resourcev1.ResourceClaimTemplate{}, c.resourceClaimTemplates)
	give(w, f, &resourcev1.DeviceTaintRule{}, c.deviceTaintRules)

	claims := assumecache.NewAssumeCache(logger, f.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	resourceSlices, err := newSliceTracker(ctx, f)
	if err != nil {
		return nil, err
	}
	draManager := dynamicresources.NewDRAManager(ctx, claims, resourceSlices, f)
	if classes, ok := draManager.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache); ok && classes != nil {
		if _, err := f.Resource().V1().DeviceClasses().Informer().AddEventHandler(classes); err != nil {
			return nil, err
		}
	}

	enabled := utilfeature.DefaultFeatureGate.Enabled
	schedulerCache := internalcache.New(ctx, nil, enabled(features.GenericWorkload), enabled(features.CompositePodGroup))
	w.snapshot = internalcache.NewEmptySnapshot()
	options := []frameworkruntime.Option{
		frameworkruntime.WithMutableSnapshotLister(w.snapshot),
		frameworkruntime.WithComponentConfigVersion("kubescheduler.config.k8s.io/v1"),
		frameworkruntime.WithClientSet(w.client),
		frameworkruntime.WithEventRecorder(&w.recorder),
		frameworkruntime.WithInformerFactory(f),
		frameworkruntime.WithSharedDRAManager(draManager),
		frameworkruntime.WithSnapshotSharedLister(w.snapshot),
		frameworkruntime.WithParallelism(1),
		frameworkruntime.WithMetricsRecorder(recorder),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(f.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithPodGroupManager(schedulerCache),
	}
	if w.Framework, err = frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile, options...); err != nil {
		return nil, fmt.Errorf("framework: %w", err)
	}
	queue := internalqueue.NewSchedulingQueue(w.QueueSortFunc(), f)
	w.SetPodNominator(queue)
	w.SetPodActivator(queue)
	for _, p := range w.ListPlugins().Score.Enabled {
		w.weights[p.Name] = int64(p.Weight)
	}
	for _, p := range w.PreEnqueuePlugins() {
		switch p := p.(type) {
		case *defaultpreemption.DefaultPreemption:
			w.preemption = p
		case *dynamicresources.DynamicResources:
			w.dra = p
		}
	}

	for _, s := range w.informers {
		if s.SharedIndexInformer == nil {
			continue // nobody asked for it
		}
		if err := s.start(); err != nil {
			return nil, err
		}
	}
	for _, n := range c.nodes {
		schedulerCache.AddNode(logger, n)
	}
	rank := map[*v1.Pod]int{}
	for i, p := range pods {
		rank[p] = i
		if p.Spec.NodeName != "" {
			if err := schedulerCache.AddPod(logger, p); err != nil {
				return nil, err
			}
		} else {
			queue.Add(ctx, p) // a nominated pod waits there
		}
	}
	if err := schedulerCache.UpdateSnapshot(logger, w.snapshot); err != nil {
		return nil, err
	}
	w.setOrder(usualOrder(rank))
	return w, nil
}

func (w *world) setOrder(tie func(a, b *v1.Pod) bool) {
	w.order = tie
	setOrder(w.preemption, tie)
}

func (w *world) close() {
	w.cancel()
	_ = w.Framework.Close()
}

func newSliceTracker(ctx context.Context, f informers.SharedInformerFactory) (*resourceslicetracker.Tracker, error) {
	o := resourceslicetracker.Options{
		EnableDeviceTaintRules:   utilfeature.DefaultFeatureGate.Enabled(features.DRADeviceTaintRules),
		EnableConsumableCapacity: utilfeature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity),
		SliceInformer:            resourceinformers.ToTypedResourceSliceInformer(f.Resource().V1().ResourceSlices()),
	}
	if o.EnableDeviceTaintRules {
		o.TaintInformer = resourceinformers.ToTypedDeviceTaintRuleInformer(f.Resource().V1().DeviceTaintRules())
	}
	return resourceslicetracker.StartTracker(ctx, o)
}
