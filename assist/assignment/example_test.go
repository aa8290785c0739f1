package assignment_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/assignment/demo"
	"github.com/airlock-run/airlock/assist/reply"
)

func Example() {
	ctx := context.Background()
	r := reply.Parse([]byte(`Login works.

=== PROGRESS UPDATE ===
assignment_id: A1234
percent: 75
completed: Completed login implementation
next: Password reset functionality
=== END PROGRESS UPDATE ===
`))

	batch := assignment.NewBatch(r.Items, assignment.Source{
		API: "https://projects.example.com", Project: "P1", Reply: r.SHA256})
	store := &assignment.Memory{}
	outbox := assignment.NewOutbox(store)
	if _, err := outbox.Add(ctx, batch); err != nil {
		fmt.Println(err)
		return
	}

	project := &demo.Project{} // stands for the project's API
	sender := assignment.NewSender(store, assignment.SenderOptions{HTTP: &http.Client{Transport: project}})
	if err := sender.Drain(ctx, assignment.Query{}); err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range project.Deliveries() {
		fmt.Println(d.Path)
		fmt.Println(d.Body)
	}
	// Output:
	// /api/v1/projects/P1/assignments/A1234/progress
	// {"progress_percent":75,"progress_notes":"Completed login implementation","remaining_items":["Password reset functionality"]}
}
