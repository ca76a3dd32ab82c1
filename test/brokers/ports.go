// SPDX-License-Identifier: Apache-2.0

package brokers

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
)

// Outgoing connections of this machine take ports from about 32768 on, and a
// broker must find its port free when it starts again. So ports come from below.
const (
	firstPort = 15000
	lastPort  = 32000
	portTries = 5
)

// address of a port on this machine.
func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// freePorts finds n ports that nobody listens on.
func freePorts(n int) ([]int, error) {
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		if tries > 1000 {
			return nil, fmt.Errorf("looking for free ports: none between %d and %d", firstPort, lastPort)
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			continue
		}
		defer func() { _ = l.Close() }() // all at the end, so that they differ
		ports = append(ports, port)
	}
	return ports, nil
}

// onFreePorts calls start with n free ports, and again with other ones if they
// were taken in between.
func onFreePorts(n int, start func(ports []int) error) error {
	for try := 1; ; try++ {
		ports, err := freePorts(n)
		if err != nil {
			return err
		}
		err = start(ports)
		if err == nil || !portTaken(err) {
			return err
		}
		if try == portTries {
			return fmt.Errorf("%w: %w", errTries, err)
		}
	}
}

// portTaken reads it from the end of a broker's log, which start errors carry.
func portTaken(err error) bool {
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "address already in use") || strings.Contains(text, "failed to bind")
}
