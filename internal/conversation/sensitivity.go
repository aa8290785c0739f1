package conversation

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"path"
	"strings"

	"github.com/dustin/go-humanize"
)

// Sensitivity returns why the file may contain a secret, or "". Such a file leaves the
// machine only with the consent of the user.
func (f File) Sensitivity() string {
	name := strings.ToLower(path.Base(strings.ReplaceAll(f.Path, `\`, "/")))
	if secretName(name) {
		return "files of this name hold secrets"
	}
	content, err := f.Open()
	if err != nil {
		return ""
	}
	defer content.Close()
	head, err := io.ReadAll(io.LimitReader(content, 64<<10))
	if err != nil {
		return ""
	}
	for _, mark := range secretMarks() {
		if bytes.Contains(head, []byte(mark)) {
			return "it seems to hold a key"
		}
	}
	return ""
}

func secretName(name string) bool {
	switch path.Ext(name) {
	case ".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx":
		return true
	}
	switch name {
	case ".npmrc", ".pypirc", ".netrc", ".pgpass", ".htpasswd", "credentials", "credentials.json", "secrets.yaml",
		"secrets.yml", "secrets.json", ".git-credentials", "kubeconfig":
		return true
	}
	return name == ".env" || strings.HasPrefix(name, ".env.") || strings.HasPrefix(name, "id_rsa") ||
		strings.HasPrefix(name, "id_ed25519") || strings.HasPrefix(name, "id_ecdsa")
}

// secretMarks are what the most common keys begin with.
func secretMarks() []string {
	return []string{"-----BEGIN PRIVATE KEY", "-----BEGIN RSA PRIVATE KEY", "-----BEGIN OPENSSH PRIVATE KEY",
		"-----BEGIN EC PRIVATE KEY",
		"AKIA", "ghp_", "github_pat_", "sk-ant-", "sk-proj-", "xai-", "AIzaSy", "xoxb-"}
}

// sumOf is the SHA-256 of what a reader has.
func sumOf(r io.Reader) (string, error) {
	s := sha256.New()
	if _, err := io.Copy(s, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(s.Sum(nil)), nil
}

// sameAs reports whether a file of an earlier turn is as it was.
func sameAs(f File) bool {
	content, err := f.Open()
	if err != nil {
		return false
	}
	defer content.Close()
	now, err := sumOf(content)
	return err == nil && now == f.was
}

func bytesText(n int64) string { return humanize.IBytes(uint64(max(0, n))) }
