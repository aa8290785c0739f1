package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/assignment/demo"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/reply"
	"github.com/airlock-run/airlock/assist/store"
	"github.com/airlock-run/airlock/assist/workspace"
)

// What one process has noted, the next one finds.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "state")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	first, err := store.Open(ctx, dir)
	if err != nil {
		log.Fatal(err)
	}
	err = first.Ledger().Put(ctx, provider.Entry{Key: "k1", Provider: "openai", Name: "a.csv", ID: "file-1"})
	if err != nil {
		log.Fatal(err)
	}
	if err := first.Close(); err != nil {
		log.Fatal(err)
	}

	next, err := store.Open(ctx, dir)
	if err != nil {
		log.Fatal(err)
	}
	defer next.Close()
	entries, err := next.Ledger().Entries(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range entries {
		fmt.Println(e.Name, "is still at", e.Provider)
	}
	// Output: a.csv is still at openai
}

// What a reply reports is queued in the step in which its files become durable, and sent once.
func ExampleStore_Reports() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "state")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := store.Open(ctx, filepath.Join(dir, "state"))
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	project := filepath.Join(dir, "project")
	if err := os.Mkdir(project, 0o755); err != nil {
		log.Fatal(err)
	}

	w, err := workspace.Open(ctx, project, workspace.Options{Store: s.Workspaces()})
	if err != nil {
		log.Fatal(err)
	}
	r := reply.Parse([]byte("```text:hello.txt\nhello\n```\n\n" +
		"=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 40\n=== END PROGRESS UPDATE ===\n"))
	reports := assignment.NewBatch(r.Items, assignment.Source{
		API: "https://projects.example.com", Project: "P1", Reply: r.SHA256})
	proposal, err := w.Plan(ctx, workspace.Origin{Kind: "reply"}, workspace.FromReply(r)...)
	if err != nil {
		log.Fatal(err)
	}
	approval, err := proposal.Approve()
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := w.Commit(ctx, proposal, approval, workspace.CommitOptions{
		Attach: func(*workspace.Receipt) (json.RawMessage, error) {
			return json.Marshal(assignment.Attachment{Reports: reports})
		}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("created", receipt.FilesCreated)

	api := &demo.Project{} // stands for the project's API
	sender := assignment.NewSender(s.Reports(), assignment.SenderOptions{HTTP: &http.Client{Transport: api}})
	if err := sender.Drain(ctx, assignment.Query{}); err != nil {
		log.Fatal(err)
	}
	for _, d := range api.Deliveries() {
		fmt.Println(d.Path, d.Body)
	}
	// Output:
	// created [hello.txt]
	// /api/v1/projects/P1/assignments/A1/progress {"progress_percent":40,"progress_notes":"","remaining_items":[]}
}
