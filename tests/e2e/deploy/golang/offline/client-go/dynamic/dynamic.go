// Package dynamic stands in for the client of clusters: `lookup` in a chart fails.
package dynamic

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

type ResourceInterface interface {
	Get(ctx context.Context, name string, options metav1.GetOptions, subresources ...string) (*unstructured.Unstructured, error)
	List(ctx context.Context, opts metav1.ListOptions) (*unstructured.UnstructuredList, error)
}

type NamespaceableResourceInterface interface {
	Namespace(string) ResourceInterface
	ResourceInterface
}

type DynamicClient struct{}

func NewForConfig(*rest.Config) (*DynamicClient, error) { return nil, errors.New("offline") }

func (*DynamicClient) Resource(schema.GroupVersionResource) NamespaceableResourceInterface { return nil }
