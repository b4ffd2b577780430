// Renders a Helm chart with Helm's own engine and holds every manifest against the types of Kubernetes' API: an unknown field, one in
// the wrong case, one that is there twice or of another type is an error, as where a server validates strictly. What a server refuses
// for other reasons, such as a name that is too long, is not seen. A file of manifests is checked as it is.
//
//	check CHART [VALUES]...    VALUES as for `helm install --set`; each set is a rendering of its own
//	check FILE
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/strvals"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// The kinds that there may be.
func typeOf(kind string) any {
	switch kind {
	case "v1 ConfigMap":
		return &core.ConfigMap{}
	case "apps/v1 DaemonSet":
		return &apps.DaemonSet{}
	case "batch/v1 Job":
		return &batch.Job{}
	case "monitoring.coreos.com/v1 PodMonitor":
		return &monitoring.PodMonitor{}
	}
	return nil
}

func check(manifest string) (string, error) {
	text, err := yaml.YAMLToJSONStrict([]byte(manifest))
	if err != nil {
		return "", err
	}
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(text, &head); err != nil {
		return "", err
	}
	kind := head.APIVersion + " " + head.Kind
	object := typeOf(kind)
	if object == nil {
		return kind, fmt.Errorf("%q is no kind that is known here", kind)
	}
	strict, err := json.UnmarshalStrict(text, object)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	return kind, err
}

func render(files *chart.Chart, set string) error {
	values := map[string]any{}
	if err := strvals.ParseInto(set, values); err != nil {
		return err
	}
	release := chartutil.ReleaseOptions{Name: "corun-agent", Namespace: "monitoring", IsInstall: true}
	all, err := chartutil.ToRenderValues(files, values, release, nil)
	if err != nil {
		return err
	}
	rendered, err := engine.Render(files, all)
	if err != nil {
		return err
	}
	return checkAll(set, rendered)
}

func checkAll(set string, manifests map[string]string) error {
	kinds := []string{}
	for name, text := range manifests {
		for _, manifest := range strings.Split(text, "\n---\n") {
			if strings.TrimSpace(manifest) == "" {
				continue
			}
			kind, err := check(manifest)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	fmt.Printf("[%s] %s\n", set, strings.Join(kinds, ", "))
	return nil
}

func checkFile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return checkAll("", map[string]string{path: string(text)})
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: check CHART [VALUES]... | check FILE")
		os.Exit(2)
	}
	if found, err := os.Stat(os.Args[1]); err == nil && !found.IsDir() {
		if err := checkFile(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	sets := os.Args[2:]
	if len(sets) == 0 {
		sets = []string{""}
	}
	for _, set := range sets {
		files, err := loader.Load(os.Args[1])
		if err == nil {
			err = render(files, set)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "[%s] %v\n", set, err)
			os.Exit(1)
		}
	}
}
