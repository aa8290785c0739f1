package cli

import (
	"encoding/csv"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/engine"
)

func (a *app) usage() *cobra.Command {
	var ask client.UsageQuery
	asCSV := false
	cmd := &cobra.Command{
		Use:        "usage",
		SuggestFor: []string{"stats"},
		Short:      "Lists what was used in a month, by day, owner and key",
		Long: `Lists what was used in a month, by day, owner and key: programs, processor time,
memory (GiB-hours), bytes that were stored, and bytes that were sent. Days and
months are those of UTC. On the machine of the service, and with an admin key,
all owners are listed, else the caller's own.

--csv prints it for a spreadsheet, with plain numbers: seconds, byte-seconds and
bytes.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withService(cmd.Context(), "start it with `airlock serve`, or name one with --server URL",
				"no service is running here, and nothing is counted without one", func(c *client.Client) error {
					used, err := c.Usage(cmd.Context(), ask)
					if err != nil {
						return err
					}
					if used.More {
						a.Say("There is more than this: name an owner with --owner.")
					}
					if asCSV && !a.JSON {
						return a.usageCSV(used.Days)
					}
					return a.PrintTable(used, "Nothing was used in "+used.Month+".", usageRows(used.Days))
				})
		},
	}
	cmd.Flags().StringVar(&ask.Month, "month", "", "`MONTH` as 2026-11; else this one")
	cmd.Flags().StringVar(&ask.Owner, "owner", "", "`NAME` of the owner alone")
	cmd.Flags().BoolVar(&ask.Users, "users", false, "list each user whom an application names by itself")
	cmd.Flags().BoolVar(&asCSV, "csv", false, "print comma-separated values")
	return a.WithFlags(cmd, config.Client)
}

func usageRows(days []client.UsageDay) [][]string {
	rows := [][]string{{"DAY", "OWNER", "KEY", "PROGRAMS", "CPU", "MEMORY", "STORED", "SENT"}}
	for _, d := range days {
		key := d.Key
		if key == "" {
			key = "-"
		}
		rows = append(rows, []string{d.Day, command.Printable(d.Owner), key, strconv.FormatInt(d.Used.Runs, 10),
			engine.DurationText(d.Used.CPU), gibHours(d.Used.MemoryByteSeconds), humanize.IBytes(uint64(d.Used.StoredBytes)),
			humanize.IBytes(uint64(d.Used.SentBytes))})
	}
	return rows
}

// gibHours returns byte-seconds in GiB-hours.
func gibHours(n int64) string {
	return strconv.FormatFloat(float64(n)/(1<<30)/3600, 'f', 3, 64) + " GiBh"
}

func (a *app) usageCSV(days []client.UsageDay) error {
	w := csv.NewWriter(a.Streams.Out)
	_ = w.Write([]string{"day", "owner", "key", "programs", "cpu_seconds", "memory_byte_seconds", "stored_bytes",
		"sent_bytes"})
	for _, d := range days {
		_ = w.Write([]string{d.Day, d.Owner, d.Key, strconv.FormatInt(d.Used.Runs, 10),
			strconv.FormatFloat(float64(d.Used.CPU)/float64(time.Second), 'f', 3, 64),
			strconv.FormatInt(d.Used.MemoryByteSeconds, 10), strconv.FormatInt(d.Used.StoredBytes, 10),
			strconv.FormatInt(d.Used.SentBytes, 10)})
	}
	w.Flush()
	return w.Error()
}
