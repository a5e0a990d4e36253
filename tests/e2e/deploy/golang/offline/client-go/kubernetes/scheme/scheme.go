// Package scheme stands in for the list of all kinds, by which helm names what a cluster has.
package scheme

import "k8s.io/apimachinery/pkg/runtime"

var Scheme = runtime.NewScheme()
