// SPDX-License-Identifier: Apache-2.0

package walk

import (
	"fmt"

	"synchronizer"
)

// defaultChanges is how many changes are read at a time.
const defaultChanges = 1000

// FeedLimit checks how a feed is read, and gives the limit.
func FeedLimit(account string, limit int) (int, error) {
	if account == "" {
		return 0, fmt.Errorf("%w: a change feed is that of one account, and none was named", synchronizer.ErrInvalid)
	}
	if limit == 0 {
		return defaultChanges, nil
	}
	return PageLimit(limit)
}

// CheckPlace refuses a place in a feed of which the changes behind it are no longer
// kept, or that the feed has never had (it was restored from an older backup).
func CheckPlace(after, floor, position int64) error {
	switch {
	case after < floor:
		return fmt.Errorf("%w: changes up to position %d are no longer kept, and those behind %d were asked for; list again",
			synchronizer.ErrGone, floor, after)
	case after > position:
		return fmt.Errorf("%w: position %d was never given, the newest is %d; list again", synchronizer.ErrGone, after, position)
	}
	return nil
}
