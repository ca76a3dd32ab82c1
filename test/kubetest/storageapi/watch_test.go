// SPDX-License-Identifier: Apache-2.0

package storageapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"synchronizer/test/kubetest/storageapi"
)

// watching is a watch through kube-apiserver.
type watching struct {
	t      *testing.T
	events chan string // "TYPE name version", and "end" at last
}

// watch opens a watch and waits until the server has it.
func watch(t *testing.T, s *storageapi.Server, path string) watching {
	t.Helper()
	before := s.Watches("containerprofiles")
	config := shared.RESTConfig()
	client, closeIdle := newClient(t, config)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	w := watching{t, make(chan string, 100)}
	ended := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-ended
		closeIdle()
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+path, nil)
	require.NoError(t, err)
	response, err := client.Do(request)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, before+1, s.Watches("containerprofiles"))
	go func() {
		defer close(ended)
		defer func() { _ = response.Body.Close() }()
		for decoder := json.NewDecoder(response.Body); ; {
			var event struct {
				Type   string
				Object struct {
					item
					Code int
				}
			}
			if err := decoder.Decode(&event); err != nil {
				w.events <- "end"
				return
			}
			text := strings.TrimSpace(event.Type + " " + event.Object.Metadata.Name)
			if event.Object.Code != 0 {
				text += fmt.Sprint(" ", event.Object.Code)
			}
			if strings.Contains(string(event.Object.Spec), "findings") {
				text += " full"
			}
			w.events <- text + " " + event.Object.Metadata.ResourceVersion
		}
	}()
	return w
}

func (w watching) expect(events ...string) {
	w.t.Helper()
	for _, want := range events {
		select {
		case got := <-w.events:
			require.Equal(w.t, want, strings.TrimSpace(got))
		case <-time.After(limit):
			require.Fail(w.t, "no event", "instead of %s", want)
		}
	}
}

func TestWatchTellsHollowEvents(t *testing.T) {
	s := open(t)
	const resource = "containerprofiles"
	before := put(t, s, resource, "one", "old")
	now := watch(t, s, all+"?watch=true") // is not told of old
	one := put(t, s, resource, "one", "a")
	two := put(t, s, resource, "two", "a")
	put(t, s, "sbomsyfts", "one", "a")
	three := put(t, s, resource, "one", "a")
	require.NoError(t, s.Delete(resource, "one", "a"))
	require.NoError(t, s.Delete(resource, "one", "a"))
	end := s.ResourceVersion()
	want := []string{"ADDED a " + one, "ADDED a " + two, "MODIFIED a " + three, "DELETED a " + end}
	now.expect(want...)
	watch(t, s, all+"?watch=true&resourceVersion="+before).expect(want...)
	inOne := watch(t, s, inOne+"?watch=true&resourceVersion="+before)
	inOne.expect("ADDED a "+one, "MODIFIED a "+three, "DELETED a "+end)
	require.Equal(t, 3, s.Watching(resource))
	s.Close()
	now.expect("end")
	inOne.expect("end")
	require.Zero(t, s.Watching(resource))
}

func TestStreamingListIsRefused(t *testing.T) {
	open(t)
	for _, value := range []string{"true", "false"} {
		_, err := shared.Get(t.Context(), all+"?watch=true&resourceVersionMatch=NotOlderThan&sendInitialEvents="+value)
		require.True(t, apierrors.IsInvalid(err), "%v", err)
		require.ErrorContains(t, err, "sendInitialEvents")
	}
}

func TestIdleBookmarksAndUnseen(t *testing.T) {
	s := open(t)
	const resource, query = "containerprofiles", "?watch=true&allowWatchBookmarks=true"
	start := put(t, s, resource, "one", "a")
	w, without := watch(t, s, all+query), watch(t, s, all+"?watch=true")

	behave := func(b storageapi.Behaviour) { require.NoError(t, s.Behave(resource, b)) }
	behave(storageapi.Behaviour{Watch: storageapi.Idle})
	put(t, s, resource, "one", "idle")
	require.NoError(t, s.Bookmark(resource))
	idle := watch(t, s, all+query)
	again := watch(t, s, all+query+"&resourceVersion="+start)
	put(t, s, resource, "one", "idle2")

	behave(storageapi.Behaviour{Watch: storageapi.BookmarksOnly})
	silent := put(t, s, resource, "one", "bookmarked")
	for _, each := range []watching{w, idle, again} {
		each.expect("BOOKMARK " + silent) // and none of the events before
	}
	behave(storageapi.Behaviour{})
	_, err := s.PutUnseen(resource, "one", "unseen", []byte(body))
	require.NoError(t, err)
	require.Contains(t, read[list](t, all).names(), "unseen")
	told := put(t, s, resource, "one", "told")
	for _, each := range []watching{w, idle, again, without} {
		each.expect("ADDED told " + told)
	}
	require.NoError(t, s.Bookmark(resource))
	w.expect("BOOKMARK " + told)
	behave(storageapi.Behaviour{BookmarkEvery: time.Millisecond})
	w.expect("BOOKMARK "+told, "BOOKMARK "+told)
	s.Close()
	without.expect("end") // no bookmarks without asking
}

func TestInitialForgetfulFullAndCompact(t *testing.T) {
	s := open(t)
	const resource = "containerprofiles"
	first := put(t, s, resource, "one", "a")
	second := put(t, s, resource, "one", "b")
	require.NoError(t, s.Behave(resource, storageapi.Behaviour{Initial: true, Full: true}))
	watch(t, s, all+"?watch=1").expect("ADDED a full "+first, "ADDED b full "+second)

	require.NoError(t, s.Behave(resource, storageapi.Behaviour{Forgetful: true}))
	forgetful := watch(t, s, all+"?watch=1&resourceVersion="+first)
	third := put(t, s, resource, "one", "c")
	forgetful.expect("ADDED c " + third)

	require.NoError(t, s.Behave(resource, storageapi.Behaviour{}))
	s.Compact()
	watch(t, s, all+"?watch=1&resourceVersion="+second).expect("ERROR 410", "end")
	current := watch(t, s, all+"?watch=1&resourceVersion="+third)
	fourth := put(t, s, resource, "one", "d")
	current.expect("ADDED d " + fourth)
	watch(t, s, all+"?watch=1&timeoutSeconds=1").expect("end")
}

func TestWatchWithSelector(t *testing.T) {
	s := open(t)
	const resource = "containerprofiles"
	w := watch(t, s, all+"?watch=1&labelSelector=app%3Dnginx")
	one := put(t, s, resource, "one", "a")
	_, err := s.Put(resource, "one", "a", []byte(`{"spec":{}}`)) // no longer selected
	require.NoError(t, err)
	gone := s.ResourceVersion()
	require.NoError(t, s.Delete(resource, "one", "a"))
	two := put(t, s, resource, "one", "a")
	w.expect("ADDED a "+one, "DELETED a "+gone, "ADDED a "+two)
}
