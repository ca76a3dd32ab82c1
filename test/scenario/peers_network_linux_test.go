// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// network is another machine, as far as TCP can tell: a network namespace with
// one cable to this one. Packets that are lost in it are not acknowledged, which
// no proxy can do: it is a TCP peer itself.
type network struct {
	t                     *testing.T
	space, cable          string
	hereAddress, farther  string
	listening             net.Listener
	blockedHere, blockedT bool
	down                  bool
}

// newNetwork makes the machine and a listener on it. It needs root.
func newNetwork(t *testing.T) *network {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	id := os.Getpid()
	n := &network{t: t, space: fmt.Sprintf("peers%d", id), cable: fmt.Sprintf("peers%d", id)}
	subnet := fmt.Sprintf("192.0.2.%d", 4*(id%60)) // of the addresses for documentation
	n.hereAddress, n.farther = nextAddress(subnet, 1), nextAddress(subnet, 2)
	n.ip("netns", "add", n.space)
	t.Cleanup(func() { n.ip("netns", "del", n.space) })
	n.ip("link", "add", n.cable, "type", "veth", "peer", "name", "far", "netns", n.space)
	t.Cleanup(func() { n.ip("link", "del", n.cable) })
	n.ip("address", "add", n.hereAddress+"/30", "dev", n.cable)
	n.ip("link", "set", n.cable, "up")
	n.ip("-n", n.space, "address", "add", n.farther+"/30", "dev", "far")
	n.ip("-n", n.space, "link", "set", "far", "up")
	n.listening = n.listen()
	return n
}

func nextAddress(subnet string, by byte) string {
	a := net.ParseIP(subnet).To4()
	a[3] += by
	return a.String()
}

func (n *network) ip(arguments ...string) {
	n.t.Helper()
	out, err := exec.Command("ip", arguments...).CombinedOutput()
	require.NoError(n.t, err, "ip %v: %s", arguments, out)
}

// listen opens a listener there. A socket stays in the namespace of the thread
// that made it, and so do the connections that it accepts.
func (n *network) listen() net.Listener {
	type result struct {
		listener net.Listener
		err      error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine: it is there for good
		space, err := os.Open("/run/netns/" + n.space)
		if err == nil {
			err = unix.Setns(int(space.Fd()), unix.CLONE_NEWNET)
			_ = space.Close()
		}
		if err != nil {
			done <- result{nil, err}
			return
		}
		listener, err := net.Listen("tcp4", n.farther+":0")
		done <- result{listener, err}
	}()
	r := <-done
	require.NoError(n.t, r.err)
	return r.listener
}

// lose makes what is sent there, and what is sent from there, vanish.
func (n *network) lose(there, back bool) {
	n.t.Helper()
	if there {
		n.ip("route", "add", "blackhole", n.farther+"/32")
		n.blockedHere = true
	}
	if back {
		n.ip("-n", n.space, "route", "add", "blackhole", n.hereAddress+"/32")
		n.blockedT = true
	}
}

// pull pulls the cable.
func (n *network) pull() {
	n.t.Helper()
	n.ip("link", "set", n.cable, "down")
	n.down = true
}

// repair ends lose and pull.
func (n *network) repair() {
	n.t.Helper()
	if n.blockedHere {
		n.ip("route", "del", "blackhole", n.farther+"/32")
	}
	if n.blockedT {
		n.ip("-n", n.space, "route", "del", "blackhole", n.hereAddress+"/32")
	}
	if n.down {
		n.ip("link", "set", n.cable, "up")
	}
	n.blockedHere, n.blockedT, n.down = false, false, false
}
