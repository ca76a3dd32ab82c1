// SPDX-License-Identifier: Apache-2.0

// Command promql checks that the rules of a file are PromQL: go run -C tools ./promql
// FILE, the file named from the folder tools. It prints what is not.
package main

import (
	"fmt"
	"os"

	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

func main() {
	findings, err := check(os.Args[1])
	for _, f := range findings {
		fmt.Println(f)
	}
	if err != nil {
		fmt.Println(err)
	}
	if err != nil || len(findings) > 0 {
		os.Exit(1)
	}
}

// check gives a line for each rule that cannot be read.
func check(name string) (findings []string, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading rules: %w", err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert string `json:"alert"`
				Expr  string `json:"expr"`
			} `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("reading rules of %s: %w", name, err)
	}
	rules := 0
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			rules++
			if _, err := parser.NewParser(parser.Options{}).ParseExpr(rule.Expr); err != nil {
				findings = append(findings, rule.Alert+": "+err.Error())
			}
		}
	}
	if rules == 0 {
		return nil, fmt.Errorf("reading rules of %s: there are none", name)
	}
	return findings, nil
}
