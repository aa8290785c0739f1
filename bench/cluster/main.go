// Command cluster starts PostgreSQL, an S3 server, apis and workers on this machine, and
// leaves them to the user, measures them, kills them, or upgrades them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/airlock-run/airlock/bench/lab"
)

// options are of all that this command does.
type options struct {
	binary, former, from, runtimes, doc string
	kills                               int
}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "bin/airlock", "what is run")
	flag.StringVar(&o.former, "former", "", "upgrade: an earlier one")
	flag.StringVar(&o.from, "from", "", "upgrade: the commit of that")
	flag.StringVar(&o.runtimes, "runtimes", "", "Python packages, of a data directory after airlock setup")
	flag.StringVar(&o.doc, "doc", "", "write the table between the marks of this file, docs/cluster.md")
	flag.IntVar(&o.kills, "kills", 60, "kills: how many nodes are killed under load")
	flag.Parse()
	does := map[string]func(context.Context, *cluster){
		"run": stay, "faults": faults, "kills": kills, "bench": measure, "upgrade": upgrade,
	}[flag.Arg(0)]
	if does == nil {
		fmt.Fprintln(os.Stderr, "usage: cluster [options] run|faults|kills|bench|upgrade")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	var table strings.Builder
	c := &cluster{options: &o, out: io.MultiWriter(os.Stdout, &table)}
	err := lab.Try(func() { c.start(ctx); does(ctx, c) })
	c.stop()
	if err = errors.Join(err, ctx.Err()); err == nil && o.doc != "" {
		err = lab.Fill(o.doc, "cluster:"+flag.Arg(0), "\n"+strings.TrimSpace(table.String())+"\n")
	}
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// stay starts a cluster and leaves it to the user.
func stay(ctx context.Context, c *cluster) {
	c.four(ctx, c.options.binary)
	fmt.Fprintf(c.out, "\n  Database  %s\n  Bucket    %s\n", c.database, c.bucket)
	for _, n := range c.nodes {
		fmt.Fprintf(c.out, "  %-8s  %s\n", n.role, n.url)
	}
	fmt.Fprintf(c.out, "\nTry:\n  curl -s %s/api/v1/runs -H 'content-type: application/json' \\\n"+
		"       -d '{\"language\":\"python\",\"code\":\"print(1)\"}'\n\nCtrl-C stops all of them.\n", c.nodes[0].url)
	<-ctx.Done()
}
