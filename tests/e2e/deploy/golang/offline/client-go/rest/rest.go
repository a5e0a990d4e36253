// Package rest stands in for the client of clusters, which rendering a chart does not need.
package rest

type Config struct{}
