// Package upstream runs Kubernetes' own [sig-scheduling] specs on the cluster of -kubeconfig, and tells of each as it ends.
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
	// Not before: AfterReadingAllFlags goes through all specs once without running them.
	ginkgo.ReportAfterEach(tell)
	ginkgo.RunSpecs(t, "Kubernetes scheduling")
}

// tell writes a line that stands alone, so that what was told stays told if the run is cut short.
func tell(spec ginkgo.SpecReport) {
	line, err := json.Marshal(map[string]any{
		"name": spec.FullText(), "state": spec.State.String(), "seconds": spec.RunTime.Seconds(), "message": spec.FailureMessage(),
	})
	if err == nil {
		fmt.Printf("\nSPEC %s\n", line)
	}
}
