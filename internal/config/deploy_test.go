package config

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// names returns every name under which the environment can set an option.
func names() []string {
	found := []string{"AIRLOCK_CONFIG"}
	for _, o := range Options() {
		found = append(found, o.Env())
		found = append(found, o.Foreign...)
	}
	return found
}

// TestComposeSettings finds only settings that exist in what the compose files give
// Airlock, and the walls of the container in each.
func TestComposeSettings(t *testing.T) {
	files, err := filepath.Glob("../../deploy/compose/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("compose files: %v, %v", files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Services map[string]struct {
				Image       string
				Entrypoint  []string
				Environment map[string]string
				ReadOnly    bool     `yaml:"read_only"`
				CapDrop     []string `yaml:"cap_drop"`
				Security    []string `yaml:"security_opt"`
				Privileged  bool
			}
		}
		if err := yaml.Unmarshal(text, &file); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		ours := 0
		for title, service := range file.Services {
			if !strings.Contains(service.Image, "AIRLOCK_IMAGE") || service.Entrypoint != nil { // of a command that ends
				continue
			}
			ours++
			if app := filepath.Base(name); (app == "onyx.yaml" || app == "librechat.yaml") &&
				!strings.Contains(service.Image, ":-airlock:full}") {
				t.Errorf("%s: %s has not the packages of the application", name, service.Image)
			}
			apart := service.Environment["AIRLOCK_ROLE"] == "api" // runs no program
			if service.Privileged || !service.ReadOnly || !slices.Contains(service.CapDrop, "ALL") ||
				!slices.Contains(service.Security, "no-new-privileges") ||
				!apart && !slices.ContainsFunc(service.Security, isProfile) {
				t.Errorf("%s: the service %s lacks a wall: %+v", name, title, service)
			}
			for key := range service.Environment {
				if !slices.Contains(names(), key) && !strings.HasPrefix(key, "AWS_") {
					t.Errorf("%s: there is no setting %s", name, key)
				}
			}
		}
		if ours == 0 {
			t.Errorf("%s: no service is of Airlock's image", name)
		}
	}
}

// isProfile reports whether a security option is our profile of system calls.
func isProfile(option string) bool { return strings.HasSuffix(option, "/seccomp.json") }

// TestPackagedFile reads the settings file of the packages, with every line in it.
func TestPackagedFile(t *testing.T) {
	text, err := os.ReadFile("../../deploy/airlock.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := filepath.Join(t.TempDir(), "all.yaml")
	uncommented := regexp.MustCompile(`(?m)^#([a-z])`).ReplaceAllString(string(text), "$1")
	for _, content := range []string{string(text), uncommented} {
		write(t, all, content)
		if _, err := Load(Input{File: all, Lookup: func(string) (string, bool) { return "", false },
			Home: "/home/x"}); err != nil {
			t.Error(err)
		}
	}
	if strings.Count(uncommented, "\nlisten:") != 1 {
		t.Error("the file does not name listen")
	}
}
