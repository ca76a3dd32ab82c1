# SPDX-License-Identifier: Apache-2.0
#
# Reads the output of "go test -v". Prints of each package that passed its closing
# line, and of every other all that it printed. With -v list=skipped it prints the
# skipped tests with their reasons instead.

function clear() {
	held = ""
	delete reason
}

list == "skipped" {
	if ($1 == "===") {
		test = $3
	} else if ($1 == "---" && $2 == "SKIP:") {
		skipped[++count] = $3
	} else if ($0 ~ /^ +[A-Za-z0-9_]+\.go:[0-9]+: /) {
		sub(/^ +/, "")
		reason[test] = $0
	} else if ($0 ~ /^(ok|FAIL|\?)[ \t]+[^ \t]+/) {
		for (i = 1; i <= count; i++) {
			printf "  %s %s: %s\n", $2, skipped[i], reason[skipped[i]]
		}
		count = 0
		clear()
	}
	next
}

/^ok  / { print; fflush(); clear(); next }
/\[no test files\]$/ { clear(); next }
/^FAIL\t/ { printf "%s", held; print; fflush(); clear(); next }
# A detector's report or a panic shall be seen although the package may hang afterwards.
{ held = held $0 "\n" }
END { printf "%s", held }
