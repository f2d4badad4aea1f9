package natsjs

import "testing"

func TestServerVersions(t *testing.T) {
	for version, want := range map[string]bool{
		"2.14.0": true, "2.14.0-RC.1": true, "2.15.3": true, "3.0.0": true, "v2.20.1": true,
		"2.13.9": false, "2.9.99": false, "1.40.0": false, "": false, "2": false, "x.y.z": false,
	} {
		if got := atLeast(version, 2, 14); got != want {
			t.Errorf("atLeast(%q, 2, 14) = %v", version, got)
		}
	}
}
