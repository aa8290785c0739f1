package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// LibreChat is what the dialect of LibreChat costs beside the native API.
type LibreChat struct {
	Native  Summary `json:"native"`    // print(1), in turn with
	Exec    Summary `json:"exec"`      // the same by /exec
	Round   Summary `json:"round"`     // a round of programmatic tool calling
	Batch   Summary `json:"batch"`     // upload of 200 small files
	Listing Summary `json:"listing"`   // of a session of 1,000 files
	Growth  float64 `json:"growth_mb"` // of the service's own memory, while 200 MB are uploaded
}

const chat = "/librechat/v1"

// chatClient speaks to a service as LibreChat does.
type chatClient struct{ base string }

func (c chatClient) do(
	ctx context.Context, method, path, contentType string, body io.Reader,
) (took time.Duration, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", contentType)
	start := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	took = time.Since(start)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s: %.200s", path, resp.Status, answer)
	}
	return took, answer, err
}

func (c chatClient) post(ctx context.Context, path string, body any) (time.Duration, []byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	return c.do(ctx, "POST", path, "application/json", bytes.NewReader(text))
}

// newSession creates a session of the native API, and returns its id.
func (c chatClient) newSession(ctx context.Context, request map[string]any) (string, error) {
	_, answer, err := c.post(ctx, "/api/v1/sessions", request)
	if err != nil {
		return "", err
	}
	var session struct {
		ID string `json:"id"`
	}
	return session.ID, json.Unmarshal(answer, &session)
}

func (b *bench) measureLibreChat(ctx context.Context) error {
	if err := b.services(ctx); err != nil {
		return err
	}
	defer http.DefaultClient.CloseIdleConnections()
	c := chatClient{"http://" + b.warm.address}
	r := &LibreChat{}
	for _, measure := range []func(context.Context, chatClient, *LibreChat) error{
		b.chatExec, b.chatRounds, b.chatBatches, b.chatListing, b.chatUpload} {
		if err := measure(ctx, c, r); err != nil {
			return err
		}
	}
	b.results.LibreChat = r
	fmt.Fprintf(b.progress, "   print(1) %.2f ms, natively %.2f ms; a round of tool calls %.2f ms; 200 files %.0f ms; "+
		"listing 1,000 files %.1f ms; 200 MB with %.1f MB\n",
		r.Exec.P50, r.Native.P50, r.Round.P50, r.Batch.P50, r.Listing.P50, r.Growth)
	return ctx.Err()
}

func (b *bench) chatExec(ctx context.Context, c chatClient, r *LibreChat) error {
	var native, exec sample
	for range b.plan.pairs {
		for _, one := range []struct {
			path string
			body map[string]string
			to   *sample
		}{
			{runsPath, map[string]string{"language": "python", "code": "print(1)"}, &native},
			{chat + "/exec", map[string]string{"lang": "py", "code": "print(1)"}, &exec},
		} {
			took, _, err := c.post(ctx, one.path, one.body)
			if err != nil {
				return err
			}
			*one.to = append(*one.to, took)
		}
	}
	r.Native, r.Exec = native.summary(), exec.summary()
	return nil
}

// chatRounds has a program call a tool three times, one after the other.
func (b *bench) chatRounds(ctx context.Context, c chatClient, r *LibreChat) error {
	var rounds sample
	for range b.plan.streams {
		request := map[string]any{"code": "for i in range(3):\n    await f()", "tools": []map[string]string{{"name": "f"}}}
		for turn := 0; request != nil; turn++ {
			took, answer, err := c.post(ctx, chat+"/exec/programmatic", request)
			if err != nil {
				return err
			}
			if turn > 0 { // the first has the start of the program in it
				rounds = append(rounds, took)
			}
			var reply struct {
				Token string `json:"continuation_token"`
				Calls []struct {
					ID string `json:"id"`
				} `json:"tool_calls"`
			}
			if err := json.Unmarshal(answer, &reply); err != nil {
				return err
			}
			if request = nil; len(reply.Calls) > 0 {
				request = map[string]any{"continuation_token": reply.Token,
					"tool_results": []map[string]any{{"call_id": reply.Calls[0].ID, "result": 1}}}
			}
		}
	}
	r.Round = rounds.summary()
	return nil
}

const chatForm = "multipart/form-data; boundary=b"

func (b *bench) chatBatches(ctx context.Context, c chatClient, r *LibreChat) error {
	var batches sample
	for turn := range b.plan.files {
		var form strings.Builder
		for i := range 200 {
			fmt.Fprintf(&form,
				"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"skills/x/%d.md\"\r\n\r\n%d of %d\r\n", i, i, turn)
		}
		form.WriteString("--b--\r\n")
		took, _, err := c.do(ctx, "POST", chat+"/upload/batch", chatForm, strings.NewReader(form.String()))
		if err != nil {
			return err
		}
		batches = append(batches, took)
	}
	r.Batch = batches.summary()
	return nil
}

// chatListing lists a session that four programs left 250 files in, each.
func (b *bench) chatListing(ctx context.Context, c chatClient, r *LibreChat) error {
	session, err := c.newSession(ctx, map[string]any{})
	if err != nil {
		return err
	}
	for turn := range 4 {
		code := fmt.Sprintf("for i in range(250): open(f'%d_{i}.txt', 'w').write(str(i))", turn)
		if _, _, err := c.post(ctx, runsPath, map[string]string{
			"language": "python", "session": session, "code": code}); err != nil {
			return err
		}
	}
	var listings sample
	for range b.plan.streams {
		took, answer, err := c.do(ctx, "GET", chat+"/files/"+session+"?detail=full", "", http.NoBody)
		if err != nil {
			return err
		}
		if n := bytes.Count(answer, []byte(`"fileId"`)); n != 1000 {
			return fmt.Errorf("the session lists %d files", n)
		}
		listings = append(listings, took)
	}
	r.Listing = listings.summary()
	return nil
}

// chatUpload looks at the service's memory while a large file passes through.
func (b *bench) chatUpload(ctx context.Context, c chatClient, r *LibreChat) error {
	f := familyOf(b.warm.cmd.Process.Pid, processes())
	service := f.service
	if len(service) == 0 { // without root the service is the first process
		service = f.parent
	}
	own := func() float64 {
		private, _, err := memoryOf(service)
		if err != nil {
			return 0
		}
		return private
	}
	before, most := own(), 0.0
	block := bytes.Repeat([]byte{7}, 1<<20)
	reading, writing := io.Pipe()
	go func() {
		_, err := io.WriteString(
			writing, "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"big.bin\"\r\n\r\n")
		for i := 0; i < 200*1000*1000/len(block) && err == nil; i++ {
			if i%10 == 0 {
				most = max(most, own())
			}
			_, err = writing.Write(block)
		}
		if err == nil {
			_, err = io.WriteString(writing, "\r\n--b--\r\n")
		}
		writing.CloseWithError(err)
	}()
	if _, _, err := c.do(ctx, "POST", chat+"/upload", chatForm, reading); err != nil {
		return err
	}
	r.Growth = max(most-before, 0)
	return nil
}
