// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var reasonName = regexp.MustCompile(`^Drop[A-Z]`)

// TestEveryDropHasAReasonOfTheTable: the constants are the table, each is used
// somewhere, and nobody drops under a text of their own or without counting.
func TestEveryDropHasAReasonOfTheTable(t *testing.T) {
	declared, listed, used := map[string]bool{}, map[string]bool{}, map[string]bool{}
	files := token.NewFileSet()
	root := filepath.Join("..", "..")
	drops, err := parser.ParseFile(files, filepath.Join(root, "drop.go"), nil, 0)
	require.NoError(t, err)
	for _, d := range drops.Decls {
		general, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			value, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			if general.Tok == token.CONST {
				declared[value.Names[0].Name] = true
				continue
			}
			ast.Inspect(value, func(n ast.Node) bool {
				if name, ok := n.(*ast.Ident); ok && reasonName.MatchString(name.Name) && declared[name.Name] {
					listed[name.Name] = true
				}
				return true
			})
		}
	}
	require.NotEmpty(t, declared)
	require.Equal(t, declared, listed, "a constant without a row is counted and not documented")

	err = filepath.WalkDir(filepath.Join(root, "internal"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if of, ok := n.X.(*ast.Ident); ok && of.Name == "synchronizer" && declared[n.Sel.Name] {
					used[n.Sel.Name] = true
				}
			case *ast.CallExpr:
				if name := called(n); (name == "Drop" || name == "drop") && len(n.Args) > 0 {
					_, literal := n.Args[0].(*ast.BasicLit)
					require.False(t, literal, "%s: a reason that is not in drop.go", files.Position(n.Pos()))
				}
				if called(n) == "DropReason" {
					require.Fail(t, "a reason that is not in drop.go", "%s", files.Position(n.Pos()))
				}
			}
			return true
		})
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, declared, used, "a reason that nobody drops under")
}

// called is the name of what is called.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}
