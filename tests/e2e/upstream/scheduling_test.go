// Package upstream runs Kubernetes' own [sig-scheduling] specs on the cluster of -kubeconfig, and reports each result.
package upstream

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	_ "k8s.io/kubernetes/test/e2e/scheduling"
)

func TestMain(m *testing.M) {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	framework.AfterReadingAllFlags(&framework.TestContext)
	os.Exit(m.Run())
}

func TestScheduling(t *testing.T) {
	gomega.RegisterFailHandler(framework.Fail)
	// Register only here, because AfterReadingAllFlags makes a dry run of all specs.
	ginkgo.BeforeEach(waitForDeletedPods)
	ginkgo.ReportAfterEach(report)
	ginkgo.RunSpecs(t, "Kubernetes scheduling")
}

// waitForDeletedPods waits, before a spec of preemption, until the pods of earlier specs are gone. Upstream's own wait
// looks for namespaces by an old prefix and finds none. If only some of these pods are gone, a spec's first pod gets
// their room, and its second pod preempts the first.
func waitForDeletedPods(ctx ginkgo.SpecContext) {
	if !strings.Contains(ginkgo.CurrentSpecReport().FullText(), "SchedulerPreemption") {
		return
	}
	client, err := framework.LoadClientset()
	framework.ExpectNoError(err)
	gomega.Eventually(ctx, func(ctx ginkgo.SpecContext) ([]string, error) {
		pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		var left []string
		for _, pod := range pods.Items {
			if pod.Namespace != metav1.NamespaceSystem {
				left = append(left, pod.Namespace+"/"+pod.Name)
			}
		}
		return left, nil
	}).WithTimeout(time.Minute).WithPolling(100 * time.Millisecond).Should(gomega.BeEmpty())
}

// report prints each result immediately, so that an interrupted run keeps its results.
func report(spec ginkgo.SpecReport) {
	line, err := json.Marshal(map[string]any{
		"name": spec.FullText(), "state": spec.State.String(), "seconds": spec.RunTime.Seconds(), "message": spec.FailureMessage(),
	})
	if err == nil {
		fmt.Printf("\nSPEC %s\n", line)
	}
}
