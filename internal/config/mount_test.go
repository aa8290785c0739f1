package config

import (
	"strings"
	"testing"
)

func TestMount(t *testing.T) {
	for value, want := range map[string][2]string{
		"datasets=/srv/datasets": {"datasets", "/srv/datasets"},
		"out=/srv/out/:rw":       {"out", "/srv/out to write to"},
		"out=/srv/out:rw/":       {"out", "/srv/out:rw"},
		"a=/:rw":                 {},
		"a=srv:rw":               {},
		"a=/srv/x/../y/":         {"a", "/srv/y"},
		"datasets":               {},
		"datasets=srv":           {},
		"data=/srv":              {},
		"a=/":                    {},
		"a=/srv/..":              {},
		"A=/srv":                 {},
		"../x=/srv":              {},
		"":                       {},
	} {
		name, folder, write := Mount(value)
		if write {
			folder += " to write to"
		}
		if err := checkMount(value); (err == nil) != (want[0] != "") {
			t.Errorf("%q: %v", value, err)
		} else if err == nil && [2]string{name, folder} != want {
			t.Errorf("%q is %q at %q, want %q", value, name, folder, want)
		}
	}
	for value, want := range map[string][2]string{
		"datasets": {"", "datasets"}, "key:k1=datasets": {"k1", "datasets"}, "a:ro": {"", "a:ro"},
		"key:k1=a:ro": {"k1", "a:ro"},
		"a:rw":        {}, "onyx=datasets": {}, "key:=a": {}, "": {},
	} {
		key, name := MountAccess(value)
		if err := checkMountAccess(value); (err == nil) != (want[1] != "") || [2]string{key, name} != want {
			t.Errorf("%q is %q for %q: %v, want %q", value, name, key, err, want)
		}
	}
}

// Programs cannot write to what the service runs from.
func TestWritableMountOfData(t *testing.T) {
	for value, bad := range map[string]bool{"a=/srv:rw": true, "a=/srv/data:rw": true, "a=/srv/data/x:rw": true,
		"a=/srv": false, "a=/srv/data2:rw": false} {
		c := &Config{Data: "/srv/data", Mounts: []string{value}}
		if err := c.checkWritable(); (err != nil) != bad || bad && !strings.Contains(err.Error(), "data directory") {
			t.Errorf("%s: %v", value, err)
		}
	}
}
