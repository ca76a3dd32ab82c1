// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"

	"synchronizer"
)

// The databases.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
)

// Stores are the names of the databases that can be measured.
var Stores = []string{SQLite, Postgres}

// IngestOptions configure Ingest.
type IngestOptions struct {
	Store    string // one of Stores
	URL      string // of an empty PostgreSQL database server to use instead of one of its own
	Seed     uint64
	Objects  int    // of one run
	Runs     int    // pairs of runs
	Rows     int    // of the database that is read; 0: reading is not measured
	Queries  int    // of each sort; 0: 200
	Workers  int    // transactions at once
	Profiles string // folder for a CPU profile of the ingester's runs
	Command  string
	Progress *Progress
}

// groups of figures of Ingest.
const (
	groupInserts = "objects that are new"
	groupUpdates = "objects that are known, in a new state"
	groupRepeats = "records that say nothing new"
	groupDisk    = "database"

	objectsPerSecond = "objects per second, from the queue into committed rows"
	rawPerSecond     = "objects per second, the same rows through the database's library alone"
	ofRaw            = "of the library alone"
	ingestBatch      = 500 // records of a transaction, the default of ingester.batchMax
)

// ingestGoals are objects per second with two cores, the database's among them.
var ingestGoals = map[string]float64{SQLite: 6000, Postgres: 5000}

// database is a database of its own for each run.
type benchDatabase interface {
	// open opens the store of this project, making it if it is not there.
	open(ctx context.Context) (benchStore, error)
	// raw opens the same database through its library.
	raw(ctx context.Context) (rawDatabase, error)
	// restart lets the database forget what it has in memory.
	restart(ctx context.Context) error
	size(ctx context.Context) (int64, error)
	remove(ctx context.Context) error
}

// benchStore is what is measured of a store.
type benchStore interface {
	synchronizer.Store
	synchronizer.Reader
	synchronizer.Sets
}

// databases makes them.
type databases interface {
	next(ctx context.Context) (benchDatabase, error)
	// cpu is the time of the database's processes, if they are not this one.
	cpu() (time.Duration, error)
	about() string
	stop() error
}

// Ingest measures what goes from the queue into a database per second, in turn
// with what the database's own library can do with the same rows, and what reading
// a large database takes.
func Ingest(ctx context.Context, o IngestOptions) (_ *Report, err error) {
	report := &Report{
		Benchmark: "ingest, " + o.Store, Command: o.Command, At: time.Now(), Machine: thisMachine(), Runs: o.Runs,
	}
	dbs, err := o.databases(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dbs.stop()) }()
	stopProfile, err := o.profile()
	if err != nil {
		return nil, err
	}
	work, err := newIngestWork(o.Seed, o.Objects)
	if err != nil {
		return nil, err
	}
	report.Data = &work.about
	// The first run warms up, and shows which rows the same records become.
	rows, err := o.learn(ctx, dbs, work)
	if err != nil {
		return nil, fmt.Errorf("first run: %w", err)
	}
	for run := range o.Runs {
		if err := o.pair(ctx, report, dbs, work, rows, run); err != nil {
			return nil, fmt.Errorf("pair %d of %d: %w", run+1, o.Runs, err)
		}
	}
	if err := stopProfile(); err != nil {
		return nil, err
	}
	report.Notes = append(report.Notes, o.note(dbs))
	if o.Rows > 0 {
		if err := o.reading(ctx, report, dbs); err != nil {
			return nil, fmt.Errorf("reading: %w", err)
		}
	}
	return report, nil
}

func (o *IngestOptions) note(dbs databases) string {
	return fmt.Sprintf("%s The embedded queue, whoever publishes on it (as a server does, %d records a call), the ingester (%d worker, %d records a transaction) and the benchmark are one process; "+
		"the clock runs from the first record published to the last acknowledgement. In turn with each run the rows that those records become, read back from the tables of an earlier run, "+
		"are written through the database's library alone into the same empty schema: all tables, %d objects a transaction, many rows a statement, with the same durability; objects by one upsert, new or not, without reading or comparing them. "+
		"The sides take turns, and the first of a pair is every time the other one; a ratio is that of a pair.",
		dbs.about(), publishAtOnceBy(), o.Workers, ingestBatch, ingestBatch)
}

func (o *IngestOptions) databases(ctx context.Context) (databases, error) {
	if o.Store == SQLite {
		return newSQLites()
	}
	return newPostgreses(ctx, o.URL)
}

// profile starts a CPU profile, if one is wanted.
func (o *IngestOptions) profile() (stop func() error, err error) {
	if o.Profiles == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(o.Profiles, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of profiles: %w", err)
	}
	f, err := os.Create(filepath.Join(o.Profiles, "ingest-"+o.Store+".pprof"))
	if err != nil {
		return nil, fmt.Errorf("making the profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("profiling: %w", err), f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

// learn runs the chain once and reads what is in the tables before, after the
// inserts and after the updates.
func (o *IngestOptions) learn(ctx context.Context, dbs databases, work *ingestWork) (_ *rawRows, err error) {
	db, err := dbs.next(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.remove(context.WithoutCancel(ctx))) }()
	rows := &rawRows{objects: o.Objects}
	for state, records := range [][]synchronizer.Record{nil, work.inserts, work.updates} {
		chain, err := o.openChain(ctx, db) // makes the schema
		if err != nil {
			return nil, err
		}
		if len(records) > 0 {
			_, err = chain.carry(ctx, records, o.Progress)
		}
		if err = errors.Join(err, chain.close()); err != nil {
			return nil, err
		}
		raw, err := db.raw(ctx)
		if err != nil {
			return nil, err
		}
		rows.tables[state], err = raw.tables(ctx)
		if err = errors.Join(err, raw.close(ctx)); err != nil {
			return nil, err
		}
	}
	rows.compare()
	return rows, nil
}

// pair runs both sides.
func (o *IngestOptions) pair(ctx context.Context, report *Report, dbs databases, work *ingestWork, rows *rawRows, run int) error {
	var chain, raw [2]float64
	sides := []func() error{
		func() (err error) {
			chain, err = o.runChain(ctx, report, dbs, work)
			return err
		},
		func() (err error) {
			raw, err = o.runRaw(ctx, report, dbs, rows)
			return err
		},
	}
	if run%2 == 1 {
		sides[0], sides[1] = sides[1], sides[0]
	}
	for _, side := range sides {
		if err := side(); err != nil {
			return err
		}
	}
	for phase, group := range []string{groupInserts, groupUpdates} {
		report.add(group, rawPerSecond, "/s", raw[phase], nil)
		report.add(group, ofRaw, "%", 100*chain[phase]/raw[phase], atLeast(55))
	}
	return nil
}

// runChain measures inserts, updates and repeats.
func (o *IngestOptions) runChain(ctx context.Context, report *Report, dbs databases, work *ingestWork) (rate [2]float64, err error) {
	db, err := dbs.next(ctx)
	if err != nil {
		return rate, err
	}
	defer func() { err = errors.Join(err, db.remove(context.WithoutCancel(ctx))) }()
	chain, err := o.openChain(ctx, db)
	if err != nil {
		return rate, err
	}
	defer func() { err = errors.Join(err, chain.close()) }()
	for phase, part := range []struct {
		group   string
		records []synchronizer.Record
		goal    *Goal
	}{
		{groupInserts, work.inserts, atLeast(ingestGoals[o.Store])},
		{groupUpdates, work.updates, atLeast(ingestGoals[o.Store])},
		{groupRepeats, work.updates, atLeast(15000)},
	} {
		o.Progress.Start(part.group, len(part.records))
		own, database, err := usageWith(dbs)
		if err != nil {
			return rate, err
		}
		took, err := chain.carry(ctx, part.records, o.Progress)
		o.Progress.Stop()
		if err != nil {
			return rate, err
		}
		ownAfter, databaseAfter, err := usageWith(dbs)
		if err != nil {
			return rate, err
		}
		each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(len(part.records)) }
		name := objectsPerSecond
		if part.group == groupRepeats {
			name = "records per second"
		} else {
			rate[phase] = float64(len(part.records)) / took.Seconds()
		}
		report.add(part.group, name, "/s", float64(len(part.records))/took.Seconds(), part.goal)
		report.add(part.group, "CPU time per record, publisher, queue and ingester"+map[bool]string{true: ", the database in it"}[o.Store == SQLite], "µs", each(ownAfter-own), nil)
		if o.Store != SQLite {
			report.add(part.group, "CPU time per record, database", "µs", each(databaseAfter-database), nil)
		}
	}
	return rate, nil
}

func usageWith(dbs databases) (own, database time.Duration, err error) {
	if own, err = ownCPU(); err != nil {
		return 0, 0, err
	}
	database, err = dbs.cpu()
	return own, database, err
}

// runRaw measures the library alone.
func (o *IngestOptions) runRaw(ctx context.Context, report *Report, dbs databases, rows *rawRows) (rate [2]float64, err error) {
	db, err := dbs.next(ctx)
	if err != nil {
		return rate, err
	}
	defer func() { err = errors.Join(err, db.remove(context.WithoutCancel(ctx))) }()
	store, err := db.open(ctx) // makes the schema
	if err != nil {
		return rate, err
	}
	if err := store.Close(); err != nil {
		return rate, err
	}
	raw, err := db.raw(ctx)
	if err != nil {
		return rate, err
	}
	defer func() { err = errors.Join(err, raw.close(context.WithoutCancel(ctx))) }()
	for phase := range rate {
		o.Progress.Start("library alone", len(rows.steps[phase]))
		own, database, err := usageWith(dbs)
		if err != nil {
			return rate, err
		}
		start := time.Now()
		for _, step := range rows.steps[phase] {
			if err := raw.write(ctx, step); err != nil {
				return rate, fmt.Errorf("library alone: %w", err)
			}
			o.Progress.Add(1)
		}
		rate[phase] = float64(o.Objects) / time.Since(start).Seconds()
		o.Progress.Stop()
		ownAfter, databaseAfter, err := usageWith(dbs)
		if err != nil {
			return rate, err
		}
		spent := ownAfter - own + databaseAfter - database
		report.add([]string{groupInserts, groupUpdates}[phase], "CPU time per object, the library alone, the database in it", "µs", float64(spent.Nanoseconds())/1e3/float64(o.Objects), nil)
	}
	return rate, nil
}
