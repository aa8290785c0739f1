package assignment

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// CheckAPI returns the address of a project's API in the form of a LaneID. It must be
// https, or http on this machine, since it receives a token and the state of the
// user's work.
func CheckAPI(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%q is not the address of an API, such as https://projects.example.com", address)
	}
	switch u.Scheme {
	case "https":
	case "http":
		if !loopback(u.Hostname()) {
			return "", fmt.Errorf(
				"%s would be reached without encryption: the address must begin with https://, unless it is this machine's", u.Host)
		}
	default:
		return "", fmt.Errorf("%q must begin with https://", address)
	}
	u.Host = strings.ToLower(u.Host)
	return strings.TrimRight(u.String(), "/"), nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// Origin returns the scheme, host and port of an address, to which a token belongs.
// The default port is written out.
func Origin(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// address returns the URL of a post. An invalid id is an error, since it could change
// the path.
func (p *Post) address() (string, error) {
	for _, id := range []string{p.Project, p.Assignment, p.Escalation} {
		if id != "" && !ValidID(id) {
			return "", fmt.Errorf("%q is not an id", id)
		}
	}
	project := p.API + "/api/v1/projects/" + url.PathEscape(p.Project)
	assignment := project + "/assignments/" + url.PathEscape(p.Assignment)
	escalations := project + "/escalations"
	switch {
	case p.Project == "", (p.Kind == Progress || p.Kind == Submission) && p.Assignment == "",
		p.Kind == Decision && p.Escalation == "":
		return "", fmt.Errorf("the %s names no project, assignment or escalation", p.Kind)
	case p.Kind == Progress:
		return assignment + "/progress", nil
	case p.Kind == Submission:
		return assignment + "/submit", nil
	case p.Kind == Question:
		return escalations, nil
	case p.Kind == Decision:
		return escalations + "/" + url.PathEscape(p.Escalation) + "/decision", nil
	}
	return "", fmt.Errorf("%q is no kind of post", p.Kind)
}

// subject returns the URL of the assignment or the escalation of a post.
func (p *Post) subject() string {
	project := p.API + "/api/v1/projects/" + url.PathEscape(p.Project)
	if p.Kind == Question || p.Kind == Decision {
		return project + "/escalations/" + url.PathEscape(p.Escalation)
	}
	return project + "/assignments/" + url.PathEscape(p.Assignment)
}
