package devpg

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// clusterConfig tells Debian's packages whether to create and start a server
// of the system's own on port 5432 when they are installed.
const (
	clusterConfig     = "/etc/postgresql-common/createcluster.conf"
	clusterConfigText = "# Written before PostgreSQL was installed for its binaries alone.\ncreate_main_cluster = false\n"
)

// aptRoot installs the distribution's packages.
var aptRoot = source{
	name:     "apt",
	announce: "installing the package postgresql by apt-get, without a cluster of its own",
	possible: func() bool { return os.Geteuid() == 0 && hasPrograms("apt-get") },
	fetch: func(ctx context.Context) (string, error) {
		if err := forbidMainCluster(clusterConfig); err != nil {
			return "", err
		}
		if _, err := run(ctx, "/", "apt-get", "update"); err != nil {
			return "", err
		}
		if _, err := run(ctx, "/", "apt-get", "install", "-y", "--no-install-recommends",
			"-o", "DPkg::Lock::Timeout=120", "-o", "Dpkg::Options::=--force-confold", "postgresql"); err != nil {
			return "", err
		}
		dirs, err := findBinDirs(ctx, packagers())
		if err != nil {
			return "", err
		}
		return dirs[0], nil
	},
}

// forbidMainCluster writes the file if it is not there; who has one has decided.
func forbidMainCluster(name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(clusterConfigText)
	return errors.Join(err, f.Close())
}

// aptCache unpacks the distribution's packages without installing them, which
// needs no privilege: the server's, and those of its libraries that the
// machine lacks.
var aptCache = source{
	name:     "apt-get download",
	announce: "unpacking the package postgresql into " + cacheDir(),
	possible: func() bool { return os.Geteuid() != 0 && hasPrograms("apt-get", "apt-cache", "dpkg") },
	fetch: func(ctx context.Context) (string, error) {
		out, err := run(ctx, "/", "apt-cache", "depends", "postgresql")
		if err != nil {
			return "", err
		}
		pkg := dependsOnServer.FindStringSubmatch(out)
		if pkg == nil {
			return "", errors.New("apt knows no package postgresql-<version>: its lists are empty until root runs apt-get update")
		}
		server, major := pkg[1], pkg[2]
		plan, err := run(ctx, "/", "apt-get", "--simulate", "--no-install-recommends", "install", server)
		if err != nil {
			return "", err
		}
		dir, err := intoCache("apt-"+major, func(dir string) error {
			args := append([]string{"download"}, neededPackages(server, plan)...)
			if _, err := run(ctx, dir, "apt-get", args...); err != nil {
				return err
			}
			debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
			if err != nil {
				return err
			}
			for _, deb := range debs {
				if _, err := run(ctx, dir, "dpkg", "--extract", deb, dir); err != nil {
					return err
				}
				if err := os.Remove(deb); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return "", err
		}
		bin := filepath.Join(dir, "usr/lib/postgresql", major, "bin")
		if !hasServer(bin) {
			return "", fmt.Errorf("%s holds no initdb and postgres", bin)
		}
		return bin, nil
	},
}

var dependsOnServer = regexp.MustCompile(`(?m)^\s*Depends: (postgresql-(\d+))$`)

// neededPackages picks from apt's plan what the server's programs load: not
// the machinery around them, nor the compiler of a JIT that is switched off.
func neededPackages(server, plan string) []string {
	need := []string{server}
	sc := bufio.NewScanner(strings.NewReader(plan))
	for sc.Scan() {
		f := strings.Fields(sc.Text())
		if len(f) < 2 || f[0] != "Inst" {
			continue
		}
		name := f[1]
		library := strings.HasPrefix(name, "lib") && !strings.HasSuffix(name, "-perl") &&
			!strings.HasPrefix(name, "libllvm") && !strings.HasPrefix(name, "libz3") && !strings.HasPrefix(name, "libc-")
		client := strings.HasPrefix(name, "postgresql-client-") && name != "postgresql-client-common"
		if (library || client) && !slices.Contains(need, name) {
			need = append(need, name)
		}
	}
	return need
}
