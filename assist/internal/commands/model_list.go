package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/internal/config"
)

// modelServer is a server of models on this machine.
type modelServer struct {
	Title, URL string
	Models     []string
}

// usualServers are the default addresses of model servers:
// https://github.com/ollama/ollama/blob/main/docs/faq.md,
// https://lmstudio.ai/docs/app/api, https://github.com/ggml-org/llama.cpp/tree/master/tools/server,
// https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html.
var usualServers = [...]modelServer{
	{Title: "Ollama", URL: "http://127.0.0.1:11434/v1"},
	{Title: "LM Studio", URL: "http://127.0.0.1:1234/v1"},
	{Title: "llama.cpp", URL: "http://127.0.0.1:8080/v1"},
	{Title: "vLLM", URL: "http://127.0.0.1:8000/v1"},
}

// ownedBy maps the owned_by of a model to the server that reports it.
var ownedBy = map[string]string{
	"library": "Ollama", "organization_owner": "LM Studio", "llamacpp": "llama.cpp", "vllm": "vLLM",
}

const (
	detectTimeout = time.Second // a server on this machine has answered by then
	listTimeout   = 10 * time.Second
	listBytes     = 4 << 20
)

// detectServers asks the usual addresses on this machine for their models, all at once.
// Only opening the page that shows them calls it.
func (a *Assistant) detectServers(ctx context.Context) []modelServer {
	ctx, cancel := context.WithTimeout(ctx, detectTimeout)
	defer cancel()
	_, own, _ := net.SplitHostPort(a.Config.Listen)
	entered, _ := a.modelAddress()
	answers := usualServers
	var group sync.WaitGroup
	for i, server := range usualServers {
		if u, _ := url.Parse(server.URL); u.Port() == own || onePort(server.URL, entered) {
			continue // this service, or one that is configured
		}
		group.Go(func() {
			client := a.WebClient(server.URL)
			defer client.CloseIdleConnections()
			list, err := listModels(ctx, client, server.URL+"/models", nil)
			if err != nil || len(list) == 0 {
				return
			}
			answers[i].Title = cmp.Or(ownedBy[list[0].OwnedBy], server.Title)
			for _, m := range list {
				answers[i].Models = append(answers[i].Models, m.ID)
			}
		})
	}
	group.Wait()
	return slices.DeleteFunc(answers[:], func(s modelServer) bool { return s.Models == nil })
}

// onePort reports whether two addresses are one port of this machine.
func onePort(one, other string) bool {
	a, err := url.Parse(one)
	if err != nil {
		return false
	}
	b, err := url.Parse(other)
	return err == nil && config.IsLoopback(a.Hostname()) && config.IsLoopback(b.Hostname()) && a.Port() == b.Port()
}

// usualServer reports whether an address is that of a usual server.
func usualServer(address string) bool {
	return slices.ContainsFunc(usualServers[:], func(s modelServer) bool { return s.URL == address })
}

// listedModel is a model in the list of a provider, in the format of OpenAI and Anthropic
// or of Gemini.
type listedModel struct {
	ID      string `json:"id"`
	OwnedBy string `json:"owned_by"`

	Name    string   `json:"name"`
	Methods []string `json:"supportedGenerationMethods"`
}

// listModels fetches a list of models.
func listModels(ctx context.Context, client *http.Client, address string, header http.Header) ([]listedModel, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if header != nil {
		req.Header = header
	}
	asking := *client
	asking.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := asking.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the list of models was answered with %s", resp.Status)
	}
	var body struct {
		Data   []listedModel `json:"data"`
		Models []listedModel `json:"models"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, listBytes)).Decode(&body); err != nil {
		return nil, err
	}
	return append(body.Data, body.Models...), nil
}

// nonTextModels are parts of the names of models that do not answer in text.
var nonTextModels = []string{"embed", "whisper", "tts", "dall-e", "moderation", "audio", "realtime", "image",
	"transcribe", "sora", "davinci", "babbage"}

// modelNames lists the models of a provider.
func (a *Assistant) modelNames(ctx context.Context, name, address string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	header, account := http.Header{}, a.account(name)
	base := strings.TrimSuffix(cmp.Or(account.URL, providerURLs[name]), "/")
	switch name {
	case provider.OpenAI, provider.XAI:
		address = base + "/models"
		header.Set("Authorization", "Bearer "+account.Key.Reveal())
	case provider.Anthropic:
		address = base + "/v1/models?limit=200"
		header.Set("X-Api-Key", account.Key.Reveal())
		header.Set("Anthropic-Version", "2023-06-01")
	case provider.Gemini:
		address = base + "/v1beta/models?pageSize=200"
		header.Set("X-Goog-Api-Key", account.Key.Reveal())
	default:
		if address == "" || !usualServer(address) {
			server, key := a.modelAddress()
			header.Set("Authorization", "Bearer "+key)
			address = server
		}
		address = strings.TrimSuffix(address, "/") + "/models"
	}
	client := a.WebClient(append(a.providerAddresses(), address)...)
	defer client.CloseIdleConnections()
	list, err := listModels(ctx, client, address, header)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range list {
		id := cmp.Or(m.ID, strings.TrimPrefix(m.Name, "models/"))
		other := slices.ContainsFunc(nonTextModels, func(word string) bool { return strings.Contains(id, word) })
		if id != "" && !other && (m.Methods == nil || slices.Contains(m.Methods, "generateContent")) {
			names = append(names, id)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
