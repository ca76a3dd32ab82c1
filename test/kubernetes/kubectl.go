// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

// kubectl runs kubectl with args and returns its exit status.
func kubectl(args []string) int {
	// kubectl reads os.Args itself, for plugins and for the log level.
	os.Args = append([]string{"kubectl"}, args...)
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args)) // the command itself reports a bad -v
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints it for people and exits with its code
		return 1
	}
	return 0
}
