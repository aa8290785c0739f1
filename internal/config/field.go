package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
)

// field reads and writes one field of a Config as text. set without values
// clears the field.
type field struct {
	set func(values []string) error
	get func() []string
	// reveal returns the text of a secret, which get hides; nil for other fields.
	reveal func() string
}

// one returns the field of a single value, given its parser and its printer.
func one[T any](at *T, parse func(string) (T, error), print func(T) string) field {
	return field{
		set: func(values []string) (err error) {
			var value T
			switch len(values) {
			case 0:
			case 1:
				if value, err = parse(strings.TrimSpace(values[0])); err != nil {
					return err
				}
			default:
				return errors.New("takes one value, not a list")
			}
			*at = value
			return nil
		},
		get: func() []string { return []string{print(*at)} },
	}
}

// list returns the field of many values, given the parser and the printer of one.
func list[T any](at *[]T, parse func(string) (T, error), print func(T) string) field {
	return field{
		set: func(values []string) error {
			var items []T
			for _, text := range values {
				item, err := parse(strings.TrimSpace(text))
				if err != nil {
					return err
				}
				items = append(items, item)
			}
			*at = items
			return nil
		},
		get: func() []string {
			var texts []string
			for _, item := range *at {
				texts = append(texts, print(item))
			}
			return texts
		},
	}
}

// separate accepts several items in one value, with commas between them.
func (f field) separate() field {
	set := f.set
	f.set = func(values []string) error { return set(splitList(strings.Join(values, ","))) }
	return f
}

// checked returns the parser of a text that must pass checks. The empty text passes all of them.
func checked[T ~string](checks []func(string) error) func(string) (T, error) {
	return func(s string) (T, error) {
		for _, check := range checks {
			if err := check(s); s != "" && err != nil {
				return "", err
			}
		}
		return T(s), nil
	}
}

func same(s string) string { return s }

func text(at *string, checks ...func(string) error) field {
	return one(at, checked[string](checks), same)
}

func texts(at *[]string, checks ...func(string) error) field {
	return list(at, checked[string](checks), same)
}

func secret(at *Secret, checks ...func(string) error) field {
	f := one(at, checked[Secret](checks), Secret.String)
	f.reveal = func() string { return at.Reveal() }
	return f
}

// longEnough refuses tokens that are short or cannot be sent in a header.
func longEnough(s string) error {
	const shortest = 32
	strange := strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
	if len(s) < shortest || strange {
		return fmt.Errorf("needs at least %d letters and digits, as `openssl rand -hex 32` makes them", shortest)
	}
	return nil
}

var keyTokens = regexp.MustCompile(`^ak_[a-km-z2-9]{12}_[A-Za-z0-9_-]{43}$`)

// keyToken refuses what is no token of a key.
func keyToken(s string) error {
	if !keyTokens.MatchString(s) {
		return errors.New("has not the form of a key's token: ak_, 12 of a-z and 2-9 without l, _, and 43 random letters " +
			"and digits")
	}
	return nil
}

func directory(at *string) field {
	return one(at, func(s string) (string, error) {
		if s == "" {
			return "", errors.New("needs the name of a directory")
		}
		return filepath.Abs(s)
	}, same)
}

// place returns the field of a file's or a directory's name, or of a JSON text in its stead.
// As root the service is a child in another directory, so that the name becomes absolute.
func place(at *string) field {
	return one(at, func(s string) (string, error) {
		if s == "" || s[0] == '{' {
			return s, nil
		}
		return filepath.Abs(s)
	}, same)
}

func truth(at *bool) field {
	return one(at, func(s string) (bool, error) {
		switch strings.ToLower(s) {
		case "true", "yes", "on", "1":
			return true, nil
		case "false", "no", "off", "0", "":
			return false, nil
		}
		return false, fmt.Errorf("%q is neither true nor false", s)
	}, strconv.FormatBool)
}

func level(at *slog.Level) field {
	names := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn,
		"error": slog.LevelError}
	return one(at, func(s string) (slog.Level, error) {
		if l, ok := names[strings.ToLower(s)]; ok {
			return l, nil
		}
		return 0, fmt.Errorf("%q is none of debug, info, warn, error", s)
	}, func(l slog.Level) string { return strings.ToLower(l.String()) })
}

func count(at *int, least int) field {
	return one(at, func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil {
			return 0, fmt.Errorf("%q is not a whole number", s)
		}
		if n < least {
			return 0, fmt.Errorf("%d is less than %d", n, least)
		}
		return n, nil
	}, strconv.Itoa)
}

func duration(at *time.Duration, least time.Duration) field {
	return one(at, func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if err != nil {
			return 0, fmt.Errorf("%q is not a time such as 90s, 5m or 24h", s)
		}
		if d < least {
			return 0, fmt.Errorf("%v is less than %v", d, least)
		}
		return d, nil
	}, formatDuration)
}

// formatDuration omits the zeros of time.Duration's format: 24h, not 24h0m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func size(at *int64) field {
	return one(at, func(s string) (int64, error) {
		n, err := humanize.ParseBytes(s)
		if err != nil || n == 0 || n > math.MaxInt64 {
			return 0, fmt.Errorf("%q is not a size such as 512KiB, 200MiB or 1GiB", s)
		}
		return int64(n), nil
	}, formatSize)
}

// formatSize formats n exactly, in the largest unit that divides it. The size 0, which
// was not set, is "".
func formatSize(n int64) string {
	if n == 0 {
		return ""
	}
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if one := int64(1) << (10 * (3 - i)); n%one == 0 {
			return strconv.FormatInt(n/one, 10) + unit
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

func networks(at *[]netip.Prefix) field {
	return list(at, func(s string) (netip.Prefix, error) {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return p, fmt.Errorf("%q is not a network such as 10.1.2.0/24", s)
		}
		if p != p.Masked() {
			return p, fmt.Errorf("%s is an address inside a network: write %s or %s/%d", s, p.Masked(), p.Addr(),
				p.Addr().BitLen())
		}
		return p, nil
	}, netip.Prefix.String)
}

func oneOf(names ...string) func(string) error {
	return func(s string) error {
		if slices.Contains(names, s) {
			return nil
		}
		return fmt.Errorf("%q is none of %s", s, strings.Join(names, ", "))
	}
}

func checkListen(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%q is not an address such as 127.0.0.1:8000", s)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%q is not a port number", port)
	}
	if host == "" || host == "localhost" {
		return nil
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return fmt.Errorf("%q is not an IP address of this machine", host)
	}
	return nil
}

func checkHost(s string) error {
	if strings.ContainsAny(s, "/:*@ ") {
		return fmt.Errorf("%q is not a host name: give it without scheme, port and wildcard", s)
	}
	return nil
}

// domainName matches a name in lower case with an optional port.
var domainName = regexp.MustCompile(`^([a-z0-9-]+\.)*[a-z0-9-]+(:\d{1,5})?$`)

func checkDomain(s string) error {
	if !domainName.MatchString(s) {
		return fmt.Errorf("%q is no domain such as sandbox.example.com", s)
	}
	return nil
}

// packagesRule matches NAME or WHO=NAME; see PackagesRule.
var packagesRule = regexp.MustCompile(`^(?:(native|onyx|librechat|key:[A-Za-z0-9_-]+)=)?(current|onyx|librechat|own)$`)

func checkPackages(s string) error {
	if !packagesRule.MatchString(s) {
		return fmt.Errorf(
			"%q is not a rule such as onyx, librechat=current or key:ID=onyx; the sets are current, onyx, librechat and own", s)
	}
	return nil
}

// imagesRule matches NAME or WHO=NAME; see ImagesRule.
var imagesRule = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:(native|onyx|librechat|e2b|jupyter|mcp|dify|openai|terminal|key:[A-Za-z0-9_-]+)=)?(` +
		imageName + `)$`)
})

const imageName = `[a-z0-9][a-z0-9._-]{0,62}`

func checkImages(s string) error {
	if !imagesRule().MatchString(s) {
		return fmt.Errorf("%q is not a rule such as py313, onyx=py311, jupyter=host or key:ID=py313; protocols are native, "+
			"onyx, librechat, e2b, jupyter, mcp, dify, openai and terminal", s)
	}
	return nil
}

var wholeImageName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("^" + imageName + "$")
})

func checkImageName(s string) error {
	if !wholeImageName().MatchString(s) {
		return fmt.Errorf("%q is no name of an image, such as py313", s)
	}
	return nil
}

// ImagesRule splits a rule of images as PackagesRule does.
func ImagesRule(s string) (protocol, key, name string) { return splitRule(imagesRule(), s) }

// PackagesRule splits a rule of python_packages into its protocol, or the public id of its
// key, and the set. Protocol and key are empty in a rule for all programs.
func PackagesRule(s string) (protocol, key, set string) { return splitRule(packagesRule, s) }

func splitRule(pattern *regexp.Regexp, s string) (protocol, key, name string) {
	parts := pattern.FindStringSubmatch(s)
	if parts == nil {
		return "", "", ""
	}
	if id, ok := strings.CutPrefix(parts[1], "key:"); ok {
		return "", id, parts[2]
	}
	return parts[1], "", parts[2]
}

// mountRule matches NAME=FOLDER or NAME=FOLDER:rw.
var mountRule = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(` + mountName + `)=(/.*?)(:rw)?$`)
})

// mountAccessRule matches NAME or key:ID=NAME, and NAME:ro for NAME.
var mountAccessRule = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:(key:[A-Za-z0-9_-]+)=)?(` + mountName + `(?::ro)?)$`)
})

const mountName = `[a-z0-9][a-z0-9_-]{0,31}`

// Mount splits a value of mounts. write reports whether programs may write to the folder.
func Mount(s string) (name, folder string, write bool) {
	parts := mountRule().FindStringSubmatch(s)
	if parts == nil {
		return "", "", false
	}
	return parts[1], filepath.Clean(parts[2]), parts[3] != ""
}

// MountAccess splits a rule of mount_access. name may end in :ro. key is empty in a rule for every caller.
func MountAccess(s string) (key, name string) {
	_, key, name = splitRule(mountAccessRule(), s)
	return key, name
}

func checkMount(s string) error {
	switch name, folder, _ := Mount(s); {
	case name == "":
		return fmt.Errorf("%q is not a mount such as datasets=/srv/datasets or out=/srv/out:rw; "+
			"a name has small letters, digits, _ and -", s)
	case name == "data":
		return errors.New("/mnt/data is the program's own folder: a mount has another name")
	case folder == "/":
		return errors.New("all of this machine is no folder for programs: name one below it")
	}
	return nil
}

func checkMountAccess(s string) error {
	if _, name := MountAccess(s); name == "" {
		return fmt.Errorf("%q is not a rule such as datasets or key:ID=datasets", s)
	}
	return nil
}

func checkServer(s string) error {
	if u, err := url.Parse(s); err == nil && (u.Scheme == "unix" && u.Path != "" || isHTTP(u)) {
		return nil
	}
	return fmt.Errorf("%q is not a URL such as http://host:8000", s)
}

func checkAPI(s string) error {
	if u, err := url.Parse(s); err != nil || !isHTTP(u) {
		return fmt.Errorf("%q is not a URL such as https://projects.example.com", s)
	}
	return nil
}

func isHTTP(u *url.URL) bool { return (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" }

// checkOrigin accepts an address for clients: with https, or on this machine.
func checkOrigin(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q is not an address such as https://airlock.example.com", s)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !IsLoopback(u.Hostname())) {
		return fmt.Errorf("%q does not begin with https://, which is needed unless it is on this machine", s)
	}
	return nil
}

func checkFolder(s string) error {
	if !filepath.IsAbs(s) {
		return fmt.Errorf("%q is not an absolute path", s)
	}
	return nil
}
