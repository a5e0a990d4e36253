// Package fake is imported by tests of helm only.
package fake
