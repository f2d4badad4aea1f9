package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/daybookhq/daybook/domain/schedule"
)

// machineZone is the IANA name of this machine's time zone, which is cron's, and
// where it was found. root is the root of the file system.
func machineZone(env func(string) (string, bool), root string) (zone, from string, err error) {
	if tz, ok := env("TZ"); ok && tz != "" {
		zone := strings.TrimPrefix(tz, ":")
		if i := strings.LastIndex(zone, "/zoneinfo/"); i >= 0 {
			zone = zone[i+len("/zoneinfo/"):]
		}
		if schedule.CheckZone(zone) != nil {
			return "", "", usage("TZ is %q, which is no IANA time zone: give --zone, for example --zone Europe/Berlin", plain(tz))
		}
		return zone, "TZ", nil
	}
	local := filepath.Join(root, "etc/localtime")
	if target, err := os.Readlink(local); err == nil {
		if _, name, ok := strings.Cut(target, "zoneinfo/"); ok && schedule.CheckZone(name) == nil {
			return name, "/etc/localtime", nil
		}
	}
	if b, err := os.ReadFile(filepath.Join(root, "etc/timezone")); err == nil {
		if name := strings.TrimSpace(string(b)); schedule.CheckZone(name) == nil {
			return name, "/etc/timezone", nil
		}
	}
	if _, err := os.Lstat(local); os.IsNotExist(err) {
		return "UTC", "the absence of /etc/localtime", nil
	}
	return "", "", fmt.Errorf("the name of this machine's time zone is not to be found (/etc/localtime is no link into zoneinfo): give --zone, for example --zone Europe/Berlin")
}
