// Package upstream runs Kubernetes' own [sig-scheduling] specs on the cluster of -kubeconfig, and reports each result.
package upstream

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

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
	ginkgo.ReportAfterEach(report)
	ginkgo.RunSpecs(t, "Kubernetes scheduling")
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
