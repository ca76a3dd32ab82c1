// SPDX-License-Identifier: Apache-2.0

package stock

import (
	"context"
	"net"
	"net/http"
)

type connKey struct{}

// withConn lets a handler know its connection, to cut it later.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

func connOf(r *http.Request) net.Conn {
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	return c
}
