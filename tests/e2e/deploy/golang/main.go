// Renders a chart by helm's own engine, or a directory by kustomize's own, and prints the manifests.
//
// Nothing is asked over a network: what these libraries import to ask a cluster is left out (offline/).
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: render helm CHART RELEASE [VALUES], render kustomize DIRECTORY")
		os.Exit(2)
	}
	var text string
	var err error
	switch os.Args[1] {
	case "helm":
		text, err = helm(os.Args[2], os.Args[3], os.Args[4:])
	default:
		text, err = kustomize(os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print(text)
}

func helm(path, release string, files []string) (string, error) {
	chart, err := loader.Load(path)
	if err != nil {
		return "", err
	}
	if err := chart.Validate(); err != nil {
		return "", err
	}
	values := chartutil.Values{}
	for _, file := range files {
		if values, err = chartutil.ReadValuesFile(file); err != nil {
			return "", err
		}
	}
	options := chartutil.ReleaseOptions{Name: release, Namespace: "default", Revision: 1, IsInstall: true}
	whole, err := chartutil.ToRenderValues(chart, values, options, nil)
	if err != nil {
		return "", err
	}
	made, err := engine.Engine{Strict: true}.Render(chart, whole)
	if err != nil {
		return "", err
	}
	var names []string
	for name := range made {
		if strings.TrimSpace(made[name]) != "" && filepath.Ext(name) == ".yaml" {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	var text strings.Builder
	for _, name := range names {
		fmt.Fprintf(&text, "---\n%s\n", strings.TrimSpace(made[name]))
	}
	return text.String(), nil
}

func kustomize(directory string) (string, error) {
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), directory)
	if err != nil {
		return "", err
	}
	text, err := made.AsYaml()
	return string(text), err
}
